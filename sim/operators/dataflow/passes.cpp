// A forward and a backward pass over the steps of a layer, by the rules that dataflow.h states.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/operators/dataflow.h"
#include "sim/operators/dataflow/live_tensors.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Step = Dataflow::Step;
using Role = Dataflow::Role;

// A layer whose passes are to be followed.
struct LayerPlan {
  const Dataflow& flow;
  const Dataflow::Recomputation& plan;
  std::vector<bool> saved;  // tensors that some step saves

  bool is_cached(Tensor tensor) const { return plan.cached[Dataflow::index(tensor)]; }
  bool is_saved(Tensor tensor) const { return saved[Dataflow::index(tensor)]; }
  bool is_input(Tensor tensor) const { return tensor == flow.input(); }
  // From the forward pass to the backward pass.
  bool stays(Tensor tensor) const {
    return (is_cached(tensor) || is_saved(tensor)) && !plan.dropped[Dataflow::index(tensor)];
  }
  // While the forward pass runs: of modules that are recomputed, tensors are dropped at its end.
  bool stays_to_end(Tensor tensor) const {
    if (tensor == flow.output()) return true;
    return plan.from_input ? stays(tensor) || is_input(tensor) : is_saved(tensor);
  }
};

LayerPlan layer_of(const Dataflow& flow, const Dataflow::Recomputation& plan) {
  LayerPlan layer{.flow = flow, .plan = plan, .saved = std::vector<bool>(flow.tensors(), false)};
  for (const Step& step : flow.steps()) {
    for (const Tensor tensor : step.saves()) layer.saved[Dataflow::index(tensor)] = true;
  }
  return layer;
}

// What the caller has: it can be freed, but was not taken here.
LiveTensors begin_pass(const Dataflow& flow) {
  LiveTensors live(flow);
  if (flow.input() != Dataflow::kNone) live.hold(flow.input());
  return live;
}

// Of kernels that make logits, or work on them.
LiveTensors::Kind workspace_kind(const Step& step, LiveTensors::Kind otherwise) {
  const bool logits = step.module() == Module::Head || step.module() == Module::Loss;
  return logits ? &LiveBytes::logits : otherwise;
}

// Of each tensor the last step that reads it among those chosen, or the one that writes it; where
// there is none, the number of steps.
template <class Chosen>
std::vector<std::size_t> last_readers(const Dataflow& flow, const Chosen& chosen) {
  const std::vector<Step>& steps = flow.steps();
  std::vector<std::size_t> last(flow.tensors(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!chosen(i)) continue;
    for (const Tensor tensor : steps[i].writes()) last[Dataflow::index(tensor)] = i;
    for (const Tensor tensor : steps[i].reads()) last[Dataflow::index(tensor)] = i;
  }
  return last;
}

// Of each tensor the first step that saves it, the last of a backward pass that needs it.
std::vector<std::size_t> first_savers(const Dataflow& flow) {
  const std::vector<Step>& steps = flow.steps();
  std::vector<std::size_t> first(flow.tensors(), steps.size());
  for (std::size_t i = steps.size(); i-- > 0;) {
    for (const Tensor tensor : steps[i].saves()) first[Dataflow::index(tensor)] = i;
  }
  return first;
}

// Tensors of a step that no later one reads.
template <class Stays>
void free_read(LiveTensors& live, const Dataflow& flow, std::size_t step,
               const std::vector<std::size_t>& last, const Stays& stays) {
  const auto free_last = [&](Tensor tensor) {
    if (live.has(tensor) && last[Dataflow::index(tensor)] == step && !stays(tensor))
      live.free(tensor);
  };
  for (const Tensor tensor : flow.steps()[step].reads()) free_last(tensor);
  for (const Tensor tensor : flow.steps()[step].writes()) free_last(tensor);
}

// What was dropped is there again; of what is there already a second copy is, for a moment.
void write_again(LiveTensors& live, const LayerPlan& layer, const Step& step) {
  Bytes twice;
  for (const Tensor tensor : step.writes()) {
    if (layer.is_cached(tensor)) continue;
    if (!live.has(tensor)) {
      live.write(tensor, &LiveBytes::recomputed);
      continue;
    }
    twice += layer.flow.size(tensor);
    live.take(&LiveBytes::recomputed, layer.flow.size(tensor));
  }
  live.use(&LiveBytes::recomputed, step.forward_workspace());
  live.give(&LiveBytes::recomputed, twice);
}

// Those of the steps from `first` up to `last` that are recomputed.
void repeat_steps(LiveTensors& live, const LayerPlan& layer, std::size_t first, std::size_t last) {
  const auto repeated = [&](std::size_t i) {
    return first <= i && i < last && layer.plan.repeated[i];
  };
  const std::vector<Step>& steps = layer.flow.steps();
  const std::vector<std::size_t> readers = last_readers(layer.flow, repeated);
  for (std::size_t i = first; i < last; ++i) {
    if (!repeated(i)) continue;
    write_again(live, layer, steps[i]);
    free_read(live, layer.flow, i, readers,
              [&](Tensor tensor) { return layer.is_saved(tensor) || layer.is_input(tensor); });
  }
  // What a policy kept for steps that have run.
  for (std::size_t t = 0; t < layer.saved.size(); ++t) {
    const auto tensor = static_cast<Tensor>(t);
    if (layer.is_cached(tensor) && !layer.is_saved(tensor) && live.has(tensor) &&
        readers[t] == steps.size())
      live.free(tensor);
  }
  if (layer.plan.holds_output && !live.has(layer.flow.output()))
    live.write(layer.flow.output(), &LiveBytes::recomputed);
}

std::size_t begin_of_half(const std::vector<Step>& steps, bool second) {
  const auto first = std::find_if(steps.begin(), steps.end(),
                                  [&](const Step& step) { return step.second_half() == second; });
  return static_cast<std::size_t>(first - steps.begin());
}

// Whether a gradient is made where something is that the step uses up: the gradient of what it
// wrote, or a saved tensor, which is freed.
bool takes_place(LiveTensors& live, const Step& step, Tensor tensor) {
  if (step.has_gradient_in_place()) return true;
  if (step.replaced() == Dataflow::kNone || tensor != step.reads().front() ||
      !live.has(step.replaced()))
    return false;
  live.replace_by_gradient(step.replaced(), tensor);
  return true;
}

bool has_gradient(Role role) { return role == Role::Activation || role == Role::Logits; }

// The backward pass of a step: gradients of what it reads, where one is there already a second that
// is added to it, then what no earlier step needs goes.
void differentiate(LiveTensors& live, const Dataflow& flow, std::size_t index,
                   const std::vector<std::size_t>& first) {
  const Step& step = flow.steps()[index];
  Bytes twice;
  for (const Tensor tensor : step.reads()) {
    if (!has_gradient(flow.role(tensor))) continue;
    if (live.has_gradient(tensor))
      twice += flow.size(tensor);
    else
      live.begin_gradient(tensor);
    if (!takes_place(live, step, tensor)) live.take_gradient(tensor);
  }
  live.use(workspace_kind(step, &LiveBytes::gradients), step.backward_workspace());
  live.give(&LiveBytes::gradients, twice);
  for (const Tensor tensor : step.writes())
    live.free_gradient(tensor, step.has_gradient_in_place());
  for (const Tensor tensor : step.saves()) {
    if (first[Dataflow::index(tensor)] == index && live.has(tensor)) live.free(tensor);
  }
}

}  // namespace

PassBytes Dataflow::forward(const Recomputation& recomputation) const {
  const LayerPlan layer = layer_of(*this, recomputation);
  const std::vector<std::size_t> last = last_readers(*this, [](std::size_t) { return true; });
  LiveTensors live = begin_pass(*this);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const Tensor tensor : steps_[i].writes()) live.write(tensor, &LiveBytes::activations);
    live.use(workspace_kind(steps_[i], &LiveBytes::activations), steps_[i].forward_workspace());
    free_read(live, *this, i, last, [&](Tensor tensor) { return layer.stays_to_end(tensor); });
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const auto tensor = static_cast<Tensor>(t);
    if (live.has(tensor) && recomputation.dropped[t]) live.free(tensor);
  }
  return live.bytes();
}

PassBytes Dataflow::backward(const Recomputation& recomputation) const {
  const LayerPlan layer = layer_of(*this, recomputation);
  LiveTensors live = begin_pass(*this);
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const auto tensor = static_cast<Tensor>(t);
    if (layer.stays(tensor) && !layer.is_input(tensor)) live.hold(tensor);
  }
  if (output_ != kNone) {
    live.begin_gradient(output_);
    live.leave(output_);  // the next layer saves it
  }
  if (recomputation.from_input) repeat_steps(live, layer, 0, steps_.size());
  const std::vector<std::size_t> first = first_savers(*this);
  bool second_half = false;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    const bool enters = i + 1 == steps_.size() || second_half != step.second_half();
    second_half = step.second_half();
    if (enters && !recomputation.from_input)
      repeat_steps(live, layer, begin_of_half(steps_, second_half), i + 1);
    // The gradient of a sum is that of both addends, which no one copies.
    if (step.adds())
      live.share_gradient(step.reads().list[1], step.reads().list[0]);
    else
      differentiate(live, *this, i, first);
  }
  if (recomputation.from_input && live.has(input_)) live.free(input_);
  if (recomputation.holds_output) live.free(output_);
  return live.bytes();
}

}  // namespace llmsim::sim
