// From the residual stream to the queries, keys and values of MLA (attention.h), and to those of
// attention to chosen keys.
//
// Chosen keys (sparse_attention): kernels read the latents of the keys that a query sees, which all
// heads share, so that what goes up from the latents goes to queries and outputs instead.  After
// the indexer (indexer.h), with the notation of attention.h:
//
//   queries    (t, a e/n, r), and for each head (t, c, qk_nope); rotary
//   keys       the gathered latents, c + qk_rope values a token
//   output     for each head (t, v, c), after the core
//
// Saved: queries before they go to latents, and what the core saves.  Source: DSAttention in
// Megatron-LM core/transformer/experimental_attention_variant/dsa.py.
#pragma once

#include "sim/operators/attention_core.h"
#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// Require model.mla; the second model.sparse_attention too.
AttentionInputs add_mla(LayerBuilder& layer, TensorId normed);
AttentionInputs add_sparse_mla(LayerBuilder& layer, TensorId normed);

// Into the bottlenecks of queries, and of keys and values, on this rank's own tokens; the gather of
// the first.
TensorId add_query_latents(LayerBuilder& layer, TensorId normed);
TensorId add_key_latents(LayerBuilder& layer, TensorId normed);
SharedInput shared_latents(const LayerBuilder& layer, WeightName down);
// What `make` gives of these latents of keys and values of all tensor ranks, each of which has a
// summand of their gradient.  They are gathered once: what reads them saves what it needs.
template <class Make>
TensorId of_whole_latents(LayerBuilder& layer, const char* name, TensorId own, const Make& make) {
  SharedInput input = shared_latents(layer, WeightName::MlaDown);
  input.gather_again.reset();
  const std::size_t place = layer.layer.backward_place();
  const TensorId made =
      make(layer.gathers ? layer.gathered(Module::MlaUp, name, layer.of_all_ranks(own), own, input)
                         : own);
  layer.layer.share_gradient(place, input);
  return made;
}
// `columns` of the latents of all tokens up to this rank's heads.
TensorId up_from(LayerBuilder& layer, TensorId latents, const SharedInput& input, const char* name,
                 WeightName matrix);
// The GEMMs of `heads` heads, or groups of them, of this rank from rows of `from` values to `to`.
LayerOperators by_heads(const LayerBuilder& layer, const char* label, std::int64_t heads,
                        std::int64_t from, std::int64_t to);

// Of what the core gives of latents.
TensorId values_from_latents(LayerBuilder& layer, TensorId core);

}  // namespace llmsim::sim
