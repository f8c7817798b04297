#include "sim/strategy/strategy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace llmsim::sim {
namespace {

template <typename Enum, std::size_t N>
using NameTable = std::array<std::pair<Enum, const char*>, N>;

constexpr NameTable<Precision, 9> kPrecisions{{{Precision::Fp32, "fp32"},
                                               {Precision::Tf32, "tf32"},
                                               {Precision::Fp16, "fp16"},
                                               {Precision::Bf16, "bf16"},
                                               {Precision::Fp8, "fp8"},
                                               {Precision::Mxfp8, "mxfp8"},
                                               {Precision::Nvfp4, "nvfp4"},
                                               {Precision::Nf4, "nf4"},
                                               {Precision::Int4, "int4"}}};

constexpr NameTable<OptimizerKind, 9> kOptimizers{{{OptimizerKind::AdamW, "adamw"},
                                                   {OptimizerKind::Adam, "adam"},
                                                   {OptimizerKind::Adam8bit, "adam8bit"},
                                                   {OptimizerKind::Lion, "lion"},
                                                   {OptimizerKind::Adafactor, "adafactor"},
                                                   {OptimizerKind::Sgd, "sgd"},
                                                   {OptimizerKind::Momentum, "momentum"},
                                                   {OptimizerKind::Lamb, "lamb"},
                                                   {OptimizerKind::Muon, "muon"}}};

constexpr NameTable<Sharding, 5> kShardings{{{Sharding::None, "none"},
                                             {Sharding::Zero1, "zero1"},
                                             {Sharding::Zero2, "zero2"},
                                             {Sharding::Zero3, "zero3"},
                                             {Sharding::Hsdp, "hsdp"}}};

constexpr NameTable<RecomputeKind, 5> kRecomputes{{{RecomputeKind::None, "none"},
                                                   {RecomputeKind::Selective, "selective"},
                                                   {RecomputeKind::Full, "full"},
                                                   {RecomputeKind::EveryN, "every_n"},
                                                   {RecomputeKind::Op, "op"}}};

constexpr NameTable<PipelineSchedule, 7> kSchedules{{{PipelineSchedule::GPipe, "gpipe"},
                                                     {PipelineSchedule::OneForwardOneBackward, "1f1b"},
                                                     {PipelineSchedule::Interleaved, "interleaved"},
                                                     {PipelineSchedule::ZbH1, "zb-h1"},
                                                     {PipelineSchedule::ZbH1, "zero-bubble"},
                                                     {PipelineSchedule::ZbV, "zb-v"},
                                                     {PipelineSchedule::DualPipe, "dualpipe"}}};

constexpr NameTable<ContextScheme, 3> kContextSchemes{
    {{ContextScheme::Ring, "ring"}, {ContextScheme::AllGather, "all-gather"}, {ContextScheme::AllToAll, "all-to-all"}}};

template <typename Enum, std::size_t N>
const char* name_in(const NameTable<Enum, N>& table, Enum value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "";
}

template <typename Enum, std::size_t N>
std::optional<Enum> value_in(const NameTable<Enum, N>& table, const std::string& name) {
  for (const auto& [value, known] : table) {
    if (name == known) return value;
  }
  return std::nullopt;
}

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
    default: return shard_size > 0 ? shard_size : data_parallel * context_parallel;
  }
}

bool Strategy::replicates_shards() const {
  return sharding == Sharding::Hsdp || (sharding != Sharding::None && shard_ranks() < data_parallel * context_parallel);
}

int Strategy::expert_data_ranks() const {
  const std::int64_t all = std::int64_t{tensor_parallel} * context_parallel * data_parallel;
  return std::max(1, static_cast<int>(all / (std::int64_t{expert_tensor_ranks()} * expert_parallel)));
}

int Strategy::expert_shard_ranks() const {
  const std::int64_t ranks = std::int64_t{shard_ranks()} * tensor_parallel;
  return sharding == Sharding::None
             ? 1
             : std::max(1, static_cast<int>(ranks / (std::int64_t{expert_tensor_ranks()} * expert_parallel)));
}

const char* name_of(Precision precision) { return name_in(kPrecisions, precision); }
const char* name_of(OptimizerKind optimizer) { return name_in(kOptimizers, optimizer); }
const char* name_of(Sharding sharding) { return name_in(kShardings, sharding); }
const char* name_of(RecomputeKind recompute) { return name_in(kRecomputes, recompute); }
const char* name_of(PipelineSchedule schedule) { return name_in(kSchedules, schedule); }
const char* name_of(ContextScheme scheme) { return name_in(kContextSchemes, scheme); }

std::optional<Precision> precision_named(const std::string& name) { return value_in(kPrecisions, name); }
std::optional<OptimizerKind> optimizer_named(const std::string& name) { return value_in(kOptimizers, name); }
std::optional<Sharding> sharding_named(const std::string& name) { return value_in(kShardings, name); }
std::optional<RecomputeKind> recompute_named(const std::string& name) { return value_in(kRecomputes, name); }
std::optional<PipelineSchedule> schedule_named(const std::string& name) { return value_in(kSchedules, name); }
std::optional<ContextScheme> context_scheme_named(const std::string& name) { return value_in(kContextSchemes, name); }

}  // namespace llmsim::sim
