#include "sim/strategy/layout_ratio.h"

#include <cmath>

#include "sim/base/uncertainty.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {
namespace {

struct TraitRow {
  const char* name;
  TraitError RatioErrors::*error;
  double (*of)(const Strategy&);
};

double recomputed(const Strategy& s) {
  if (s.recompute.kind == RecomputeKind::None) return 0.0;
  return s.recompute.kind == RecomputeKind::Full ? 1.0 : 0.5;
}

// By LayoutTrait.
constexpr TraitRow kTraits[] = {
    {"tensor_ranks", &RatioErrors::tensor_ranks, [](const Strategy& s) { return std::log2(s.tp); }},
    {"stages", &RatioErrors::stages, [](const Strategy& s) { return std::log2(s.pp); }},
    {"context_ranks", &RatioErrors::context_ranks,
     [](const Strategy& s) { return std::log2(s.cp); }},
    {"expert_ranks", &RatioErrors::expert_ranks, [](const Strategy& s) { return std::log2(s.ep); }},
    {"sharded_parameters", &RatioErrors::sharded_parameters,
     [](const Strategy& s) { return s.sharding >= Sharding::Zero3 ? 1.0 : 0.0; }},
    {"micro_batch", &RatioErrors::micro_batch,
     [](const Strategy& s) { return std::log2(s.micro_batch); }},
    {"recomputation", &RatioErrors::recomputation, recomputed},
    {"virtual_stages", &RatioErrors::virtual_stages,
     [](const Strategy& s) { return std::log2(s.virtual_stages); }}};
static_assert(std::size(kTraits) == kLayoutTraits);

const TraitRow& row_of(LayoutTrait trait) { return kTraits[static_cast<std::size_t>(trait)]; }

}  // namespace

LayoutTraits traits_of(const Strategy& strategy) {
  LayoutTraits traits{};
  for (std::size_t k = 0; k < kLayoutTraits; ++k) traits[k] = kTraits[k].of(strategy);
  return traits;
}

double trait_of(LayoutTrait trait, const Strategy& strategy) { return row_of(trait).of(strategy); }

const char* name_of(LayoutTrait trait) { return row_of(trait).name; }

const TraitError& RatioErrors::of(LayoutTrait trait) const { return this->*row_of(trait).error; }

double RatioErrors::bias_of(const LayoutTraits& traits) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < kLayoutTraits; ++k)
    sum += of(static_cast<LayoutTrait>(k)).bias * traits[k];
  return sum;
}

double RatioErrors::error_between(const LayoutTraits& one, const LayoutTraits& other) const {
  double squares = 2.0 * run * run;
  for (std::size_t k = 0; k < kLayoutTraits; ++k) {
    const double part = of(static_cast<LayoutTrait>(k)).error * (one[k] - other[k]);
    squares += part * part;
  }
  return std::sqrt(squares);
}

double probability_faster(const RatioErrors& errors, double log_ratio, const LayoutTraits& one,
                          const LayoutTraits& other) {
  const double expected = log_ratio + errors.bias_of(other) - errors.bias_of(one);
  return student_probability(expected / errors.error_between(one, other));
}

}  // namespace llmsim::sim
