#include "sim/operators/dataflow.h"

#include <algorithm>
#include <utility>

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

// One pass over the steps of a layer, with what is alive.
class DataflowSweep {
 public:
  using Tensor = Dataflow::Tensor;
  using Step = Dataflow::Step;
  using Role = Dataflow::Role;

  DataflowSweep(const Dataflow& flow, const Dataflow::Recomputation& recomputation)
      : flow_(flow),
        recomputation_(recomputation),
        tensors_(flow.tensors_.size()),
        saved_(flow.tensors_.size(), false) {
    for (const Step& step : flow.steps_) {
      for (const Tensor tensor : step.saves_) saved_[at(tensor)] = true;
    }
  }

  PassBytes forward() {
    hold_input();
    const std::vector<std::size_t> last = last_readers([](std::size_t) { return true; });
    for (std::size_t i = 0; i < flow_.steps_.size(); ++i) {
      write(flow_.steps_[i], &LiveBytes::activations);
      free_read(i, last, [this](Tensor tensor) {
        return until_end(tensor) || is_checkpoint(tensor) || tensor == flow_.output_;
      });
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t].live && recomputation_.dropped[t]) free(static_cast<Tensor>(t));
    }
    return pass_;
  }

  PassBytes backward() {
    hold_input();
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const auto tensor = static_cast<Tensor>(t);
      if (stays(tensor) && tensor != flow_.input_) hold(tensor);
    }
    if (flow_.output_ != Dataflow::kNone) {
      tensors_[at(flow_.output_)].gradient = add_gradient(flow_.output_);
      tensors_[at(flow_.output_)].live = false;  // its saver is the next layer
    }
    if (recomputation_.from_input) repeat(0, flow_.steps_.size());
    const std::vector<std::size_t> first = first_savers();
    bool second_half = false;
    for (std::size_t i = flow_.steps_.size(); i-- > 0;) {
      const Step& step = flow_.steps_[i];
      const bool enters = i + 1 == flow_.steps_.size() || second_half != step.second_half_;
      second_half = step.second_half_;
      if (enters && !recomputation_.from_input) repeat(begin_of_half(second_half), i + 1);
      step.adds_ ? share_gradient(step) : differentiate(step, i, first);
    }
    if (recomputation_.from_input && tensors_[at(flow_.input_)].live) free(flow_.input_);
    if (recomputation_.holds_output) free(flow_.output_);
    return pass_;
  }

 private:
  struct State {
    bool live = false;
    int gradient = -1;  // which of the gradients is its own; several tensors can have the same
    Bytes LiveBytes::*kind = &LiveBytes::activations;
  };

  static std::size_t at(Tensor tensor) { return static_cast<std::size_t>(tensor); }
  Bytes size(Tensor tensor) const { return flow_.tensors_[at(tensor)].size; }
  Role role(Tensor tensor) const { return flow_.tensors_[at(tensor)].role; }
  bool has_gradient(Tensor tensor) const {
    return role(tensor) == Role::Activation || role(tensor) == Role::Logits;
  }
  bool is_cached(Tensor tensor) const { return recomputation_.cached[at(tensor)]; }
  // From the forward pass to the backward pass.
  bool stays(Tensor tensor) const {
    return (is_cached(tensor) || saved_[at(tensor)]) && !recomputation_.dropped[at(tensor)];
  }

  // Of modules that are recomputed, tensors are dropped when the layer has ended.
  bool until_end(Tensor tensor) const {
    return recomputation_.from_input ? stays(tensor) : saved_[at(tensor)];
  }
  bool is_checkpoint(Tensor tensor) const {
    return recomputation_.from_input && tensor == flow_.input_;
  }

  Bytes LiveBytes::*kind_of(Tensor tensor, Bytes LiveBytes::*otherwise) const {
    return is_of_logits(tensor) ? &LiveBytes::logits : otherwise;
  }
  bool is_of_logits(Tensor tensor) const {
    return role(tensor) == Role::Logits || role(tensor) == Role::LogitsCopy;
  }
  // Workspaces of kernels that make them or work on them.
  bool is_of_logits(const Step& step) const {
    return step.module_ == Module::Head || step.module_ == Module::Loss;
  }

  void raise(Bytes LiveBytes::*kind, Bytes size) {
    pass_.net.*kind += size;
    if (pass_.net.total() > pass_.rise.total()) pass_.rise = pass_.net;
  }
  void pass(Bytes LiveBytes::*kind, Bytes size) {
    raise(kind, size);
    pass_.net.*kind -= size;
  }

  // Those that the caller has: they can be freed, but were not taken here.
  void hold_input() {
    if (flow_.input_ != Dataflow::kNone) tensors_[at(flow_.input_)].live = true;
  }
  void hold(Tensor tensor) {
    tensors_[at(tensor)].live = true;
    tensors_[at(tensor)].kind = kind_of(tensor, &LiveBytes::activations);
  }

  void take(Tensor tensor, Bytes LiveBytes::*kind) {
    State& state = tensors_[at(tensor)];
    state.live = true;
    state.kind = kind_of(tensor, kind);
    raise(state.kind, size(tensor));
  }
  void free(Tensor tensor) {
    State& state = tensors_[at(tensor)];
    state.live = false;
    pass_.net.*state.kind -= size(tensor);
  }

  void write(const Step& step, Bytes LiveBytes::*kind) {
    for (const Tensor tensor : step.writes_) take(tensor, kind);
    pass(is_of_logits(step) ? &LiveBytes::logits : kind, step.forward_);
  }

  // Of each tensor the last step that reads it among those chosen, or the one that writes it.
  template <class Chosen>
  std::vector<std::size_t> last_readers(const Chosen& chosen) const {
    std::vector<std::size_t> last(tensors_.size(), flow_.steps_.size());
    for (std::size_t i = 0; i < flow_.steps_.size(); ++i) {
      if (!chosen(i)) continue;
      for (const Tensor tensor : flow_.steps_[i].writes_) last[at(tensor)] = i;
      for (const Tensor tensor : flow_.steps_[i].reads_) last[at(tensor)] = i;
    }
    return last;
  }
  template <class Stays>
  void free_read(std::size_t step, const std::vector<std::size_t>& last, const Stays& stays) {
    const auto free_last = [&](Tensor tensor) {
      if (tensors_[at(tensor)].live && last[at(tensor)] == step && !stays(tensor)) free(tensor);
    };
    for (const Tensor tensor : flow_.steps_[step].reads_) free_last(tensor);
    for (const Tensor tensor : flow_.steps_[step].writes_) free_last(tensor);
  }

  std::size_t begin_of_half(bool second) const {
    const auto begin = flow_.steps_.begin();
    const auto first = std::find_if(begin, flow_.steps_.end(),
                                    [&](const Step& step) { return step.second_half_ == second; });
    return static_cast<std::size_t>(first - begin);
  }

  // Steps that are repeated: what was dropped is there again, and what is there twice is not kept.
  void repeat(std::size_t first, std::size_t last) {
    const auto chosen = [&](std::size_t i) {
      return first <= i && i < last && recomputation_.repeated[i];
    };
    const std::vector<std::size_t> readers = last_readers(chosen);
    for (std::size_t i = first; i < last; ++i) {
      if (!chosen(i)) continue;
      const Step& step = flow_.steps_[i];
      Bytes twice;
      for (const Tensor tensor : step.writes_) {
        if (is_cached(tensor)) continue;
        if (!tensors_[at(tensor)].live) {
          take(tensor, &LiveBytes::recomputed);
          continue;
        }
        twice += size(tensor);
        raise(&LiveBytes::recomputed, size(tensor));
      }
      pass(&LiveBytes::recomputed, step.forward_);
      pass_.net.recomputed -= twice;
      free_read(i, readers,
                [this](Tensor tensor) { return saved_[at(tensor)] || tensor == flow_.input_; });
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (recomputation_.cached[t] && !saved_[t] && tensors_[t].live &&
          readers[t] == flow_.steps_.size())
        free(static_cast<Tensor>(t));
    }
    if (recomputation_.holds_output && !tensors_[at(flow_.output_)].live)
      take(flow_.output_, &LiveBytes::recomputed);
  }

  std::vector<std::size_t> first_savers() const {
    std::vector<std::size_t> first(tensors_.size(), flow_.steps_.size());
    for (std::size_t i = flow_.steps_.size(); i-- > 0;) {
      for (const Tensor tensor : flow_.steps_[i].saves_) first[at(tensor)] = i;
    }
    return first;
  }

  // Adds the record of a gradient that is there.
  int add_gradient(Tensor tensor) {
    gradients_.push_back(
        {.size = size(tensor), .kind = kind_of(tensor, &LiveBytes::gradients), .tensors = 1});
    return static_cast<int>(gradients_.size()) - 1;
  }

  // The gradient of a sum is that of both addends, which no one copies.
  void share_gradient(const Step& sum) {
    const Tensor addend = sum.reads_.list[0], into = sum.reads_.list[1];
    tensors_[at(addend)].gradient = tensors_[at(into)].gradient;
    ++gradients_[static_cast<std::size_t>(tensors_[at(into)].gradient)].tensors;
  }

  void differentiate(const Step& step, std::size_t index, const std::vector<std::size_t>& first) {
    Bytes twice;  // gradients that are added to what is there
    for (const Tensor tensor : step.reads_) {
      if (!has_gradient(tensor)) continue;
      const bool there = tensors_[at(tensor)].gradient >= 0;
      if (there) twice += size(tensor);
      if (!there) tensors_[at(tensor)].gradient = add_gradient(tensor);
      if (!takes_place(step, tensor)) raise(kind_of(tensor, &LiveBytes::gradients), size(tensor));
    }
    pass(is_of_logits(step) ? &LiveBytes::logits : &LiveBytes::gradients, step.backward_);
    pass_.net.gradients -= twice;
    for (const Tensor tensor : step.writes_) free_gradient(tensor, step.in_place_);
    for (const Tensor tensor : step.saves_) {
      if (first[at(tensor)] == index && tensors_[at(tensor)].live) free(tensor);
    }
  }

  // Whether a gradient is made where something is that the step uses up: the gradient of what it
  // wrote, or the saved tensor.
  bool takes_place(const Step& step, Tensor tensor) {
    if (step.in_place_) return true;
    if (step.replaced_ == Dataflow::kNone || tensor != step.reads_.front() ||
        !tensors_[at(step.replaced_)].live)
      return false;
    free(step.replaced_);
    pass_.net.*kind_of(tensor, &LiveBytes::gradients) += size(tensor);
    return true;
  }

  void free_gradient(Tensor tensor, bool in_place) {
    const int gradient = std::exchange(tensors_[at(tensor)].gradient, -1);
    if (gradient < 0) return;
    Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
    if (--one.tensors == 0 && !in_place) pass_.net.*one.kind -= one.size;
  }

  struct Gradient {
    Bytes size{};
    Bytes LiveBytes::*kind = &LiveBytes::gradients;
    int tensors = 0;  // that share it
  };

  const Dataflow& flow_;
  const Dataflow::Recomputation& recomputation_;
  std::vector<State> tensors_;
  std::vector<bool> saved_;
  std::vector<Gradient> gradients_;
  PassBytes pass_;
};

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
    const bool known = step.saved_ == PolicySaves::EverySecond, odd = known && ++outputs % 2 == 1;
    const bool keeps =
        every_second ? odd || step.saved_ == PolicySaves::All : saved == SavedGemms::All || first;
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

PassBytes Dataflow::forward(const Recomputation& recomputation) const {
  return DataflowSweep(*this, recomputation).forward();
}
PassBytes Dataflow::backward(const Recomputation& recomputation) const {
  return DataflowSweep(*this, recomputation).backward();
}

}  // namespace llmsim::sim
