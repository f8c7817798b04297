#include "sim/operators/dataflow.h"

#include <algorithm>

namespace llmsim::sim {

Dataflow::Step& Dataflow::Step::reads(Tensor tensor) {
  if (tensor != kNone) reads_.add(tensor);
  return *this;
}

Dataflow::Step& Dataflow::Step::writes(Tensor tensor) {
  if (tensor != kNone) writes_.add(tensor);
  return *this;
}

Dataflow::Step& Dataflow::Step::saves(Tensor tensor) {
  if (tensor != kNone) saves_.add(tensor);
  return *this;
}

Dataflow::Tensor Dataflow::add(Bytes size, Role role) {
  tensors_.push_back({.size = size, .role = role});
  return static_cast<Tensor>(tensors_.size() - 1);
}

Dataflow::Step& Dataflow::step(Module module) {
  Step& step = steps_.emplace_back();
  step.module_ = module;
  step.second_half_ = second_half_;
  return step;
}

std::optional<Module> Dataflow::writer(Tensor tensor) const {
  for (const Step& step : steps_) {
    if (std::find(step.writes_.begin(), step.writes_.end(), tensor) != step.writes_.end())
      return step.module_;
  }
  return std::nullopt;
}

void Dataflow::add_in_place(Tensor addend, Tensor into) {
  step(Module::Residual).reads(addend).reads(into);
  steps_.back().adds_ = true;
}

Dataflow::Recomputation Dataflow::keep_all() const {
  return {.repeated = std::vector<bool>(steps_.size(), false),
          .dropped = std::vector<bool>(tensors_.size(), false),
          .cached = std::vector<bool>(tensors_.size(), false)};
}

Dataflow::Recomputation Dataflow::recompute(ModuleSet modules, ModuleSet keeps_output) const {
  Recomputation plan = keep_all();
  for (std::size_t i = 0; i < steps_.size(); ++i) plan.repeated[i] = modules.has(steps_[i].module_);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!plan.repeated[i]) continue;
    // The norm's own sums are small, and stay.
    for (const Tensor tensor : steps_[i].writes_) {
      const bool sums =
          steps_[i].module_ == Module::Norm && tensors_[index(tensor)].role == Role::Statistic;
      plan.dropped[index(tensor)] = tensor != output_ && !sums;
    }
  }
  // What a checkpoint within the layer gives to others stays.
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (plan.repeated[i]) continue;
    for (const Tensor tensor : steps_[i].reads_) {
      const auto writes = [&](const Step& step) {
        return keeps_output.has(step.module_) &&
               std::find(step.writes_.begin(), step.writes_.end(), tensor) != step.writes_.end();
      };
      if (std::any_of(steps_.begin(), steps_.end(), writes)) plan.dropped[index(tensor)] = false;
    }
  }
  return plan;
}

Dataflow::Recomputation Dataflow::recompute_all(bool stops_early) const {
  Recomputation plan{.repeated = std::vector<bool>(steps_.size(), true),
                     .dropped = std::vector<bool>(tensors_.size(), true),
                     .cached = std::vector<bool>(tensors_.size(), false),
                     .from_input = true,
                     .holds_output = !stops_early};
  if (stops_early)
    std::fill(plan.repeated.begin() + static_cast<std::ptrdiff_t>(needed_), plan.repeated.end(),
              false);
  for (const Tensor tensor : {input_, output_}) {
    if (tensor != kNone) plan.dropped[index(tensor)] = false;
  }
  return plan;
}

// What a policy keeps of the outputs of a step, and whether nothing of them is left to be written
// again.
struct Dataflow::KeptOutputs {
  std::vector<Tensor> tensors;
  bool all = false;
};

// The output of a row-parallel GEMM, as summed over the tensor ranks.
Dataflow::Tensor Dataflow::summed(Tensor partial) const {
  for (const Step& step : steps_) {
    if (step.reduce_scatter_ && step.reads_.front() == partial) return step.writes_.front();
  }
  return partial;
}

Dataflow::KeptOutputs Dataflow::kept_outputs(const Step& step, SavedGemms saved, bool last,
                                             int& outputs) const {
  const bool every_second = saved == SavedGemms::EverySecond;
  if (every_second && (step.fused_attention_ || step.reduce_scatter_))
    return {.tensors = {step.writes_.begin(), step.writes_.end()}, .all = true};
  KeptOutputs kept{.tensors = {}, .all = step.gemm_};
  const bool first = outputs == 0;
  for (const Tensor tensor : step.writes_) {
    if (!step.gemm_ || tensors_[index(tensor)].role == Role::Statistic) continue;
    const bool odd = step.counted_ && ++outputs % 2 == 1;
    const bool keeps = every_second ? odd : saved == SavedGemms::All || first;
    if (!keeps)
      kept.all = false;
    else if (every_second || !step.row_parallel_)
      kept.tensors.push_back(tensor);
    else if (!last)
      kept.tensors.push_back(summed(tensor));
  }
  return kept;
}

Dataflow::Recomputation Dataflow::recompute_by_operator(SavedGemms saved, bool stops_early) const {
  Recomputation plan = recompute_all(stops_early);
  const auto last =
      std::find_if(steps_.rbegin(), steps_.rend(), [](const Step& step) { return step.gemm_; });
  int outputs = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const KeptOutputs kept =
        kept_outputs(steps_[i], saved, last != steps_.rend() && &steps_[i] == &*last, outputs);
    for (const Tensor tensor : kept.tensors) plan.cached[index(tensor)] = true;
    if (!kept.all) continue;
    plan.repeated[i] = false;
    for (const Tensor tensor : steps_[i].writes_) {
      if (tensors_[index(tensor)].role == Role::Statistic) plan.cached[index(tensor)] = true;
    }
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (plan.cached[t]) plan.dropped[t] = false;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].reduce_scatter_ && plan.cached[index(steps_[i].writes_.front())])
      plan.repeated[i] = false;
  }
  return plan;
}

double Dataflow::repeated_share(const Recomputation& recomputation, Module module,
                                int ordinal) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].gemm_ || steps_[i].module_ != module || ordinal-- > 0) continue;
    if (!recomputation.repeated[i]) return 0.0;
    Bytes all, again;
    for (const Tensor tensor : steps_[i].writes_) {
      const Record& output = tensors_[index(tensor)];
      if (output.role == Role::Statistic) continue;
      all += output.size;
      if (!recomputation.cached[index(tensor)]) again += output.size;
    }
    return again / all;
  }
  return 1.0;
}

bool Dataflow::repeats(const Recomputation& recomputation, Module module) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].module_ == module && recomputation.repeated[i]) return true;
  }
  return false;
}

namespace {

template <class Tensors>
Bytes size_of_chosen(const std::vector<bool>& chosen, const Tensors& size) {
  Bytes sum;
  for (std::size_t t = 0; t < chosen.size(); ++t) {
    if (chosen[t]) sum += size(t);
  }
  return sum;
}

}  // namespace

Bytes Dataflow::saved(const Recomputation& recomputation) const {
  std::vector<bool> saved = recomputation.cached;
  for (const Step& step : steps_) {
    for (const Tensor tensor : step.saves_) {
      if (!recomputation.dropped[index(tensor)]) saved[index(tensor)] = true;
    }
  }
  if (recomputation.from_input) saved[index(input_)] = true;
  return size_of_chosen(saved, [&](std::size_t t) { return tensors_[t].size; });
}

bool Dataflow::reads_elsewhere(Module module, Tensor tensor) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.module_ != module &&
           std::find(step.reads_.begin(), step.reads_.end(), tensor) != step.reads_.end();
  });
}

Bytes Dataflow::saved_inputs(const Recomputation& recomputation, ModuleSet first_half,
                             ModuleSet second_half) const {
  std::vector<bool> inputs(tensors_.size(), false);
  for (const Step& step : steps_) {
    if (!(step.second_half_ ? second_half : first_half).has(step.module_)) continue;
    for (const Tensor tensor : step.saves_) {
      const bool written =
          std::find(step.writes_.begin(), step.writes_.end(), tensor) != step.writes_.end();
      if (!recomputation.dropped[index(tensor)] &&
          !(written && reads_elsewhere(step.module_, tensor)))
        inputs[index(tensor)] = true;
    }
  }
  return size_of_chosen(inputs, [&](std::size_t t) { return tensors_[t].size; });
}

}  // namespace llmsim::sim
