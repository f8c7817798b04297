#include "sim/operators/layer_memory.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/operators/live_tensors.h"

namespace llmsim::sim {
namespace {

// A pass over a layer: its tensors by what becomes of them.
struct LayerPass {
  const LayerGraph& layer;
  const Recomputation& plan;
  std::vector<bool> saved;  // tensors that some node saves

  LayerPass(const LayerGraph& of, const Recomputation& recomputation)
      : layer(of), plan(recomputation), saved(of.tensors().size(), false) {
    for (const Node& node : layer.nodes()) {
      for (const TensorId tensor : node.saves()) saved[LayerGraph::index(tensor)] = true;
    }
  }

  bool is_cached(TensorId tensor) const { return plan.cached[LayerGraph::index(tensor)]; }
  bool is_saved(TensorId tensor) const { return saved[LayerGraph::index(tensor)]; }
  bool is_input(TensorId tensor) const { return tensor == layer.input(); }
  // From the forward pass to the backward pass.
  bool stays(TensorId tensor) const {
    return (is_cached(tensor) || is_saved(tensor)) && !plan.dropped[LayerGraph::index(tensor)];
  }
  // While the forward pass runs: of modules that are recomputed, tensors are dropped at its end.
  bool stays_to_end(TensorId tensor) const {
    if (tensor == layer.output()) return true;
    return plan.from_input ? stays(tensor) || is_input(tensor) : is_saved(tensor);
  }
};

// The caller's input can be freed, but was not taken here.
LiveTensors begin_pass(const LayerGraph& layer, PassTensors* list) {
  LiveTensors live(layer, list);
  if (layer.input() != kNoTensor) live.hold(layer.input());
  return live;
}

// Kernels that make logits, or work on them, have workspaces of logits.
LiveTensors::Kind workspace_kind(const Node& node, LiveTensors::Kind otherwise) {
  const bool logits = node.module() == Module::Head || node.module() == Module::Loss;
  return logits ? &LiveBytes::logits : otherwise;
}

// Of each tensor the last node that reads it among those chosen, or the one that writes it; where
// there is none, the number of nodes.
template <class Chosen>
std::vector<std::size_t> last_readers(const LayerGraph& layer, const Chosen& chosen) {
  const std::vector<Node>& nodes = layer.nodes();
  std::vector<std::size_t> last(layer.tensors().size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!chosen(i)) continue;
    for (const TensorId tensor : nodes[i].writes()) last[LayerGraph::index(tensor)] = i;
    for (const TensorId tensor : nodes[i].reads()) last[LayerGraph::index(tensor)] = i;
  }
  return last;
}

// Of each tensor the first node that saves it, the last of a backward pass that needs it.
std::vector<std::size_t> first_savers(const LayerGraph& layer) {
  const std::vector<Node>& nodes = layer.nodes();
  std::vector<std::size_t> first(layer.tensors().size(), nodes.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    for (const TensorId tensor : nodes[i].saves()) first[LayerGraph::index(tensor)] = i;
  }
  return first;
}

// Frees the tensors of node `i` that no later one reads.
template <class Stays>
void free_read(LiveTensors& live, const Node& node, std::size_t i,
               const std::vector<std::size_t>& last, const Stays& stays) {
  const auto free_last = [&](TensorId tensor) {
    if (live.has(tensor) && last[LayerGraph::index(tensor)] == i && !stays(tensor))
      live.free(tensor);
  };
  for (const TensorId tensor : node.reads()) free_last(tensor);
  for (const TensorId tensor : node.writes()) free_last(tensor);
}

// What was dropped is there again; of what is there already a second copy is, for a moment.
void write_again(LiveTensors& live, const LayerPass& pass, const Node& node) {
  NodeTensors copies;
  for (const TensorId tensor : node.writes()) {
    if (pass.is_cached(tensor)) continue;
    if (!live.has(tensor)) {
      live.write(tensor, &LiveBytes::recomputed);
      continue;
    }
    copies.add(tensor);
    live.take_copy(tensor);
  }
  live.use_workspace(&LiveBytes::recomputed, node.forward_workspace(), node.module());
  for (const TensorId tensor : copies) live.give_copy(tensor);
}

// Runs those of the nodes from `first` up to `last` again that are recomputed.
void repeat_nodes(LiveTensors& live, const LayerPass& pass, std::size_t first, std::size_t last) {
  const auto repeated = [&](std::size_t i) {
    return first <= i && i < last && pass.plan.repeated[i];
  };
  const std::vector<Node>& nodes = pass.layer.nodes();
  const std::vector<std::size_t> readers = last_readers(pass.layer, repeated);
  for (std::size_t i = first; i < last; ++i) {
    if (!repeated(i)) continue;
    write_again(live, pass, nodes[i]);
    free_read(live, nodes[i], i, readers,
              [&](TensorId tensor) { return pass.is_saved(tensor) || pass.is_input(tensor); });
  }
  // What a policy saved for nodes that have run.
  for (std::size_t t = 0; t < pass.saved.size(); ++t) {
    const auto tensor = static_cast<TensorId>(t);
    if (pass.is_cached(tensor) && !pass.is_saved(tensor) && live.has(tensor) &&
        readers[t] == nodes.size())
      live.free(tensor);
  }
  const TensorId output = pass.layer.output();
  if (pass.plan.holds_output && !live.has(output)) live.write(output, &LiveBytes::recomputed);
}

std::size_t begin_of_half(const std::vector<Node>& nodes, bool second) {
  const auto first = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return node.second_half() == second; });
  return static_cast<std::size_t>(first - nodes.begin());
}

// Whether a gradient is made where something is that the node uses up: the gradient of what it
// wrote, or a saved tensor, which is freed.
bool takes_place(LiveTensors& live, const Node& node, TensorId tensor) {
  if (node.has_gradient_in_place()) {
    live.replace_gradient(node.writes().front(), tensor);
    return true;
  }
  if (node.replaced() == kNoTensor || tensor != node.reads().front() || !live.has(node.replaced()))
    return false;
  live.replace_by_gradient(node.replaced(), tensor);
  return true;
}

bool has_gradient(TensorRole role) {
  return role == TensorRole::Activation || role == TensorRole::Logits;
}

// The backward pass of a node: gradients of what it reads, where one is there already a second that
// is added to it, then what no earlier node needs goes.
void differentiate(LiveTensors& live, const LayerGraph& layer, std::size_t index,
                   const std::vector<std::size_t>& first) {
  const Node& node = layer.nodes()[index];
  NodeTensors summed;
  for (const TensorId tensor : node.reads()) {
    if (!has_gradient(layer[tensor].role)) continue;
    if (live.has_gradient(tensor))
      summed.add(tensor);
    else
      live.begin_gradient(tensor);
    if (!takes_place(live, node, tensor)) live.take_gradient(tensor);
  }
  live.use_workspace(workspace_kind(node, &LiveBytes::gradients), node.backward_workspace(),
                     node.module());
  for (const TensorId tensor : summed) live.give_gradient(tensor);
  for (const TensorId tensor : node.writes())
    live.free_gradient(tensor, node.has_gradient_in_place());
  for (const TensorId tensor : node.saves()) {
    if (first[LayerGraph::index(tensor)] == index && live.has(tensor)) live.free(tensor);
  }
}

// The passes of the nodes from the end of the layer to its beginning.
void differentiate_all(LiveTensors& live, const LayerPass& pass) {
  const std::vector<Node>& nodes = pass.layer.nodes();
  const std::vector<std::size_t> first = first_savers(pass.layer);
  bool second_half = false;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    const bool enters = i + 1 == nodes.size() || second_half != node.second_half();
    second_half = node.second_half();
    if (enters && !pass.plan.from_input)
      repeat_nodes(live, pass, begin_of_half(nodes, second_half), i + 1);
    // The gradient of a sum is that of both addends, which no one copies.
    if (node.adds())
      live.share_gradient(node.reads().list[1], node.reads().list[0]);
    else
      differentiate(live, pass.layer, i, first);
  }
}

PassBytes forward_pass(const LayerGraph& layer, const Recomputation& recomputation,
                       PassTensors* list) {
  const LayerPass pass(layer, recomputation);
  const std::vector<std::size_t> last = last_readers(layer, [](std::size_t) { return true; });
  LiveTensors live = begin_pass(layer, list);
  for (std::size_t i = 0; i < layer.nodes().size(); ++i) {
    const Node& node = layer.nodes()[i];
    for (const TensorId tensor : node.writes()) live.write(tensor, &LiveBytes::activations);
    live.use_workspace(workspace_kind(node, &LiveBytes::activations), node.forward_workspace(),
                       node.module());
    free_read(live, node, i, last, [&](TensorId tensor) { return pass.stays_to_end(tensor); });
  }
  for (std::size_t t = 0; t < layer.tensors().size(); ++t) {
    const auto tensor = static_cast<TensorId>(t);
    if (live.has(tensor) && recomputation.dropped[t]) live.free(tensor);
  }
  return live.bytes();
}

PassBytes backward_pass(const LayerGraph& layer, const Recomputation& recomputation,
                        PassTensors* list) {
  const LayerPass pass(layer, recomputation);
  LiveTensors live = begin_pass(layer, list);
  for (std::size_t t = 0; t < layer.tensors().size(); ++t) {
    const auto tensor = static_cast<TensorId>(t);
    if (pass.stays(tensor) && !pass.is_input(tensor)) live.hold(tensor);
  }
  if (layer.output() != kNoTensor) {
    live.begin_gradient(layer.output());
    live.leave(layer.output());  // the next layer saves it
  }
  if (recomputation.from_input) repeat_nodes(live, pass, 0, layer.nodes().size());
  differentiate_all(live, pass);
  if (recomputation.from_input && live.has(layer.input())) live.free(layer.input());
  if (recomputation.holds_output) live.free(layer.output());
  return live.bytes();
}

// The node that saves it first; none: it is only read.
const Node* saver_of(const LayerGraph& layer, TensorId tensor) {
  for (const Node& node : layer.nodes()) {
    if (node.saves().has(tensor)) return &node;
  }
  return nullptr;
}

bool is_same(const LiveTensor& a, const LiveTensor& b) {
  return a.kind == b.kind && a.use == b.use && a.module == b.module &&
         std::string_view(a.name) == b.name && a.shape.rows == b.shape.rows &&
         a.shape.columns == b.shape.columns && a.shape.element == b.shape.element;
}

LiveTensor named(const LayerGraph& layer, Bytes LiveBytes::*kind, const PassTensors::What& what) {
  LiveTensor live{.kind = kind, .name = "workspace", .use = what.use, .module = what.module};
  if (what.tensor == kNoTensor) return live;
  const bool stream = what.tensor == layer.input() || what.tensor == layer.output();
  live.name = stream ? kResidualStream : layer[what.tensor].name;
  live.shape = layer[what.tensor].shape;
  if (what.use != TensorUse::Saved || stream) return live;
  const Node* saver = saver_of(layer, what.tensor);
  live.use = kind == &LiveBytes::recomputed ? TensorUse::Recomputed
             : saver                        ? TensorUse::Saved
                                            : TensorUse::Read;
  if (saver && live.use == TensorUse::Saved) live.module = saver->module();
  return live;
}

}  // namespace

PassBytes forward_bytes(const LayerGraph& layer, const Recomputation& recomputation) {
  return forward_pass(layer, recomputation, nullptr);
}

PassBytes backward_bytes(const LayerGraph& layer, const Recomputation& recomputation) {
  return backward_pass(layer, recomputation, nullptr);
}

void PassTensors::change(const LayerGraph& layer, Bytes LiveBytes::*kind, Bytes size,
                         const What& what) {
  if (size == Bytes(0.0)) return;
  LiveTensor live = named(layer, kind, what);
  const auto known = std::find_if(net.begin(), net.end(),
                                  [&](const LiveTensor& one) { return is_same(one, live); });
  if (known == net.end()) {
    live.size = size;
    net.push_back(live);
  } else {
    known->size += size;
  }
}

LayerTensors layer_tensors(const LayerGraph& layer, const Recomputation& recomputation) {
  LayerTensors tensors;
  forward_pass(layer, recomputation, &tensors.forward);
  backward_pass(layer, recomputation, &tensors.backward);
  return tensors;
}

}  // namespace llmsim::sim
