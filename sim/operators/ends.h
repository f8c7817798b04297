// The two ends of the model as operators: the embedding before the first block, the head and the
// loss after the last.
//
// Embedding: a lookup of t rows and no GEMM.  Head: final norm, logits (t, V/n, h), cross entropy
// over V/n.  That of an encoder has the layers of encoder_head.h in place of the norm, and logits
// of the predicted tokens only. Over tensor ranks the output of the lookup is summed; with sequence
// parallelism the head's input is gathered, in the backward pass again (unless the loss has made
// its gradients by then), and the gradient of the lookup too. The head's GEMMs and the loss, plain
// or fused, are in loss.h.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

LayerOperators lower_embedding(const Transformer& model, const Strategy& strategy,
                               const Framework& framework);
LayerOperators lower_head(const Transformer& model, const Strategy& strategy,
                          const Framework& framework);

}  // namespace llmsim::sim
