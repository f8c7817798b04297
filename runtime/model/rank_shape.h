// The sizes that one rank computes with: a model's, divided as the strategy says.
#pragma once

#include <cstdint>

#include "runtime/kernels/mla_heads.h"
#include "runtime/kernels/rotary.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

struct RankShape {
  std::int64_t batch = 1;    // sequences of a micro-batch
  std::int64_t seq_len = 1;  // tokens of each
  std::int64_t hidden = 1;
  std::int64_t heads = 1;  // per tensor rank, as the ones below
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t ffn = 1;
  std::int64_t vocab = 1;
  std::int64_t expert_ffn = 0;  // of one routed expert
  std::int64_t shared_ffn = 0;  // of all shared experts together
  std::int64_t experts = 0;     // routed ones, per expert rank
  MlaHeadShape mla;             // of MLA; no heads without it
  int expert_rank = 0;
  bool routes_shards = false;  // each tensor rank routes its own tokens
  bool whole_experts = true;   // else divided over the tensor ranks, as the rest
  int tensor_ranks = 1;
  int tensor_rank = 0;

  std::int64_t tokens() const { return batch * seq_len; }
  HeadShape head_shape() const {
    return {.batch = batch,
            .seq_len = seq_len,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim};
  }
};

// Which rank of its groups.
struct ShapeRank {
  int tensor = 0;
  int expert = 0;
};

// Requires a valid strategy.  Throws Error for models whose layers the runtime does not execute, or
// whose key heads or vocabulary the tensor ranks do not divide, naming the field.
RankShape rank_shape(const sim::Transformer& model, const sim::Strategy& strategy, ShapeRank rank);

}  // namespace llmsim::runtime
