// A linear model whose effects come in classes, each with a variance that is estimated.
//
// Observation i is  y_i = sum_k x_ik u_k + e_i,  with effects u_k ~ t_nu(0, tau_c(k)) and noise
// e_i ~ t_nu(0, sigma): Student's t with nu = 4 degrees of freedom, so that one study or row far
// from all others does not drag them.  Written as normal distributions with a weight each,
//
//   posterior    A = sum_i w_i x_i x_i' / sigma^2 + diag(l_k / tau_c(k)^2),
//                mean A^-1 sum_i w_i x_i y_i / sigma^2, covariance A^-1
//   weights      l_k = (nu + 1) / (nu + E u_k^2 / tau^2),  w_i alike from E e_i^2 / sigma^2; 1
//                where a class is normal
//   variances    tau_c^2 = (n0 tau0_c^2 + sum_{k in c} l_k E u_k^2) / (n0 + n_c),  sigma^2 alike
//
// are iterated until the variances settle (expectation maximisation).  The prior variance
// of a class counts as much as n0 = `prior_weight` effects; a class with an infinite
// weight stays at its prior.
//
// Sources: Laird & Ware, Biometrics 38 (1982), random effects by EM; Lange, Little & Taylor, J. Am.
// Stat. Assoc. 84 (1989), Student's t by weights.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmsim::calibrate {

struct EffectClass {
  double spread = 0.1;        // tau0
  double prior_weight = 2.0;  // n0; infinite: the spread is given
  bool student = true;        // false: normal
};

inline constexpr double kGiven = std::numeric_limits<double>::infinity();

using Slopes = std::vector<std::pair<std::size_t, double>>;  // effect, x_ik

struct Observation {
  double value = 0.0;
  Slopes slopes;
};

struct MixedModel {
  std::vector<EffectClass> classes;
  std::vector<std::size_t> effects;  // the class of each
  EffectClass noise{.spread = 0.05, .prior_weight = 2.0, .student = true};
  std::vector<Observation> observations;
};

struct MixedFit {
  std::vector<double> means;                    // of the effects
  std::vector<std::vector<double>> covariance;  // of the effects
  std::vector<double> spreads;                  // tau, by class
  double noise = 0.0;                           // sigma

  double deviation(std::size_t effect) const;
  // Of sum_k x_k u_k.
  double mean_of(const Slopes& slopes) const;
  double variance_of(const Slopes& slopes) const;
};

// `settled`: the spreads of an earlier fit, which are not estimated anew.
MixedFit fit(const MixedModel& model, const MixedFit* settled = nullptr);

// An effect of a hierarchy, whose levels are the classes of its model.
template <class Level>
struct LevelEffect {
  Level level{};
  std::string id;  // of the framework, the device, the group ...
};

// The places of effects in a model, in the order in which they were first named.
template <class Level>
class EffectIndex {
 public:
  explicit EffectIndex(const std::vector<LevelEffect<Level>>& effects = {}) {
    for (const LevelEffect<Level>& effect : effects) place(effect.level, effect.id);
  }

  // Of an effect, which is added where it is new.
  std::size_t place(Level level, const std::string& id) {
    const auto [known, added] = places_.try_emplace({level, id}, list_.size());
    if (added) list_.push_back({level, id});
    return known->second;
  }

  // The sum of those that there are.
  Slopes sum(const std::vector<LevelEffect<Level>>& effects) const {
    Slopes slopes;
    for (const LevelEffect<Level>& effect : effects) {
      const auto known = places_.find({effect.level, effect.id});
      if (known != places_.end()) slopes.emplace_back(known->second, 1.0);
    }
    return slopes;
  }

  const std::vector<LevelEffect<Level>>& list() const { return list_; }

 private:
  std::map<std::pair<Level, std::string>, std::size_t> places_;
  std::vector<LevelEffect<Level>> list_;
};

// What groups of measurements moved a fitted value, as its row names them:
// "step times of 3 groups: a +1.2 %, b -0.8 %": `shifts` are what each adds to the logarithm of the
// value; those below half a per cent count but are not named.
std::string group_shifts_text(std::string_view of, const std::map<std::string, double>& shifts);

}  // namespace llmsim::calibrate
