#include "sim/strategy/strategy.h"

#include <algorithm>
#include <cstdint>

namespace llmsim::sim {
namespace {

constexpr Named<Precision> kPrecisions[] = {
    {Precision::Fp32, "fp32"},   {Precision::Tf32, "tf32"}, {Precision::Fp16, "fp16"},
    {Precision::Bf16, "bf16"},   {Precision::Fp8, "fp8"},   {Precision::Mxfp8, "mxfp8"},
    {Precision::Nvfp4, "nvfp4"}, {Precision::Nf4, "nf4"},   {Precision::Int4, "int4"}};

constexpr Named<OptimizerKind> kOptimizers[] = {{OptimizerKind::AdamW, "adamw"},
                                                {OptimizerKind::Adam, "adam"},
                                                {OptimizerKind::Adam8bit, "adam8bit"},
                                                {OptimizerKind::Lion, "lion"},
                                                {OptimizerKind::Adafactor, "adafactor"},
                                                {OptimizerKind::Sgd, "sgd"},
                                                {OptimizerKind::Momentum, "momentum"},
                                                {OptimizerKind::Lamb, "lamb"},
                                                {OptimizerKind::Muon, "muon"}};

constexpr Named<Sharding> kShardings[] = {{Sharding::None, "none"},
                                          {Sharding::Zero1, "zero1"},
                                          {Sharding::Zero2, "zero2"},
                                          {Sharding::Zero3, "zero3"},
                                          {Sharding::Hsdp, "hsdp"}};

constexpr Named<PipelineSchedule> kSchedules[] = {{PipelineSchedule::GPipe, "gpipe"},
                                                  {PipelineSchedule::OneForwardOneBackward, "1f1b"},
                                                  {PipelineSchedule::Interleaved, "interleaved"},
                                                  {PipelineSchedule::ZbH1, "zb-h1"},
                                                  {PipelineSchedule::ZbH1, "zero-bubble"},
                                                  {PipelineSchedule::ZbV, "zb-v"},
                                                  {PipelineSchedule::DualPipe, "dualpipe"}};

constexpr Named<ContextScheme> kContextSchemes[] = {{ContextScheme::Ring, "ring"},
                                                    {ContextScheme::AllGather, "all-gather"},
                                                    {ContextScheme::AllToAll, "all-to-all"}};

constexpr Named<ExpertDispatch> kDispatches[] = {{ExpertDispatch::AllToAll, "alltoall"},
                                                 {ExpertDispatch::AllGather, "allgather"},
                                                 {ExpertDispatch::Deduplicated, "deepep"},
                                                 {ExpertDispatch::Deduplicated, "hybridep"},
                                                 {ExpertDispatch::Deduplicated, "flex"}};

}  // namespace

DType matmul_dtype(Precision precision) {
  switch (precision) {
    case Precision::Fp32: return DType::Fp32;
    case Precision::Tf32: return DType::Tf32;
    case Precision::Fp16: return DType::Fp16;
    case Precision::Fp8:
    case Precision::Mxfp8: return DType::Fp8;
    case Precision::Nvfp4: return DType::Fp4;
    case Precision::Bf16:
    case Precision::Nf4:
    case Precision::Int4: return DType::Bf16;
  }
  return DType::Bf16;
}

DType activation_dtype(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
    case Precision::Tf32: return DType::Fp32;
    case Precision::Fp16: return DType::Fp16;
    default: return DType::Bf16;
  }
}

DType high_precision_matmul_dtype(Precision precision) {
  return precision == Precision::Tf32 ? matmul_dtype(precision) : activation_dtype(precision);
}

int Strategy::shard_ranks() const {
  switch (sharding) {
    case Sharding::None: return 1;
    case Sharding::Hsdp: return std::max(1, shard_size);
    default: return shard_size > 0 ? shard_size : dp * cp;
  }
}

bool Strategy::replicates_shards() const {
  return sharding == Sharding::Hsdp || (sharding != Sharding::None && shard_ranks() < dp * cp);
}

bool Strategy::plain_experts() const {
  return moe_dispatch == ExpertDispatch::AllToAll && !moe_overlap && moe_captured &&
         moe_imbalance == 1.0 && !moe_capacity;
}

int Strategy::expert_data_ranks() const {
  const std::int64_t all = std::int64_t{tp} * cp * dp;
  return std::max(1, static_cast<int>(all / (std::int64_t{expert_tensor_ranks()} * ep)));
}

int Strategy::expert_shard_ranks() const {
  const std::int64_t ranks = std::int64_t{shard_ranks()} * tp;
  return sharding == Sharding::None
             ? 1
             : std::max(1, static_cast<int>(ranks / (std::int64_t{expert_tensor_ranks()} * ep)));
}

NameTable<Precision> name_table(Precision) { return kPrecisions; }
NameTable<OptimizerKind> name_table(OptimizerKind) { return kOptimizers; }
NameTable<Sharding> name_table(Sharding) { return kShardings; }
NameTable<PipelineSchedule> name_table(PipelineSchedule) { return kSchedules; }
NameTable<ContextScheme> name_table(ContextScheme) { return kContextSchemes; }
NameTable<ExpertDispatch> name_table(ExpertDispatch) { return kDispatches; }

}  // namespace llmsim::sim
