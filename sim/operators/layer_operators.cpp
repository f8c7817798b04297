#include "sim/operators/layer_operators.h"

namespace llmsim::sim {
namespace {

void append(OperatorList& list, const OperatorList& more) {
  list.insert(list.end(), more.begin(), more.end());
}

void push(OperatorList& list, Module module, Operator op) {
  op.module = module;
  list.push_back(op);
}

}  // namespace

void LayerOperators::add_forward(Module module, Operator op) { push(forward, module, op); }
void LayerOperators::add_backward(Module module, Operator op) { push(backward, module, op); }

void LayerOperators::add(OperatorKind kind, Module module, const char* label, double elements,
                         const Traffic& traffic) {
  if (traffic.forward_kernels == 0) return;
  add_forward(module,
              memory_bound(kind, label, elements, traffic.forward_bytes, traffic.forward_kernels));
  add_backward(module, memory_bound(kind, label, elements, traffic.backward_bytes,
                                    traffic.backward_kernels));
}

void LayerOperators::add(Module module, const LayerOperators& part) {
  for (const Operator& op : part.forward) add_forward(module, op);
  for (const Operator& op : part.backward) add_backward(module, op);
  for (const Operator& op : part.recompute) push(recompute, module, op);
}

void LayerOperators::add(const LayerOperators& part) {
  append(forward, part.forward);
  append(backward, part.backward);
  append(recompute, part.recompute);
}

}  // namespace llmsim::sim
