#include "sim/strategy/strategy.h"

#include <algorithm>
#include <cstdint>

namespace llmsim::sim {
namespace {

constexpr auto kPrecisions =
    in_order<Precision>({"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "nf4", "int4"});

constexpr auto kOptimizers = in_order<OptimizerKind>(
    {"adamw", "adam", "adam8bit", "lion", "adafactor", "sgd", "momentum", "lamb", "muon"});

constexpr auto kMuonTensorModes =
    in_order<MuonTensorMode>({"blockwise", "duplicated", "distributed"});

constexpr auto kShardings = in_order<Sharding>({"none", "zero1", "zero2", "zero3", "hsdp"});

constexpr Named<PipelineSchedule> kSchedules[] = {{PipelineSchedule::GPipe, "gpipe"},
                                                  {PipelineSchedule::OneForwardOneBackward, "1f1b"},
                                                  {PipelineSchedule::Interleaved, "interleaved"},
                                                  {PipelineSchedule::ZbH1, "zb-h1"},
                                                  {PipelineSchedule::ZbH1, "zero-bubble"},
                                                  {PipelineSchedule::ZbV, "zb-v"},
                                                  {PipelineSchedule::VHalf, "v-half"},
                                                  {PipelineSchedule::VMin, "v-min"},
                                                  {PipelineSchedule::DualPipe, "dualpipe"}};

constexpr Named<ContextScheme> kContextSchemes[] = {
    {ContextScheme::Ring, "ring"},
    {ContextScheme::AllGather, "all-gather"},
    {ContextScheme::AllToAll, "all-to-all"},
    {ContextScheme::AllToAllRing, "all-to-all+ring"},
    {ContextScheme::AllToAllRing, "a2a+p2p"}};

constexpr auto kMeshOrders = in_order<MeshOrder>({"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"});

constexpr Named<ExpertDispatch> kDispatches[] = {{ExpertDispatch::AllToAll, "alltoall"},
                                                 {ExpertDispatch::AllGather, "allgather"},
                                                 {ExpertDispatch::Deduplicated, "deepep"},
                                                 {ExpertDispatch::Deduplicated, "hybridep"},
                                                 {ExpertDispatch::Deduplicated, "flex"}};

}  // namespace

DType matmul_dtype(Precision precision) {
  using enum DType;
  constexpr DType formats[] = {Fp32, Tf32, Fp16, Bf16, Fp8, Fp8, Fp4, Bf16, Bf16};
  return formats[static_cast<std::size_t>(precision)];
}

DType activation_dtype(Precision precision) {
  const DType format = matmul_dtype(precision);
  if (format == DType::Tf32) return DType::Fp32;
  return is_low_precision(format) ? DType::Bf16 : format;
}

DType high_precision_matmul_dtype(Precision precision) {
  return precision == Precision::Tf32 ? matmul_dtype(precision) : activation_dtype(precision);
}

ContextScheme Strategy::context_scheme() const {
  if (cp_scheme != ContextScheme::AllToAllRing) return cp_scheme;
  if (context_inner_ranks() == 1) return ContextScheme::Ring;
  return context_inner_ranks() == cp ? ContextScheme::AllToAll : cp_scheme;
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
         moe_imbalance.value_or(1.0) == 1.0 && !moe_capacity;
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
NameTable<MuonTensorMode> name_table(MuonTensorMode) { return kMuonTensorModes; }
NameTable<Sharding> name_table(Sharding) { return kShardings; }
NameTable<PipelineSchedule> name_table(PipelineSchedule) { return kSchedules; }
NameTable<ContextScheme> name_table(ContextScheme) { return kContextSchemes; }
NameTable<MeshOrder> name_table(MeshOrder) { return kMeshOrders; }
NameTable<ExpertDispatch> name_table(ExpertDispatch) { return kDispatches; }

// Modules are lists of names; of nothing but an empty list the default stays.
template <class Modules>
struct ModulesField {
  static constexpr FieldKind kind = FieldKind::Names;
  static Words other_words() { return {}; }
  static std::optional<FieldValue> value(const Modules& modules) { return split(text_of(modules)); }
  static bool put_names(Modules& modules, const FieldValue& value,
                        std::optional<Modules> (*from)(const std::string&)) {
    const bool lists =
        std::holds_alternative<Words>(value) || std::holds_alternative<std::string>(value);
    const std::string names = text_of(value);
    const std::optional<Modules> known = names.empty() ? modules : from(names);
    if (lists && known) modules = *known;
    return lists && known;
  }

 protected:
  static Words split(const std::string& names) {
    Words words;
    for (std::size_t from = 0; from < names.size();
         from = std::min(names.find('+', from), names.size()) + 1)
      words.push_back(names.substr(from, names.find('+', from) - from));
    return words;
  }
};

template <>
struct FieldType<RecomputedModules> : ModulesField<RecomputedModules> {
  static Words words() { return split(text_of(kAllRecomputedModules)); }
  static bool put(RecomputedModules& modules, const FieldValue& value) {
    return put_names(modules, value, recomputed_modules_from);
  }
};

template <>
struct FieldType<SavedGemms> : ModulesField<SavedGemms> {
  static Words words() {
    return split("every-second+all+" + text_of(SavedGemms{false, true, true, true, true, true}));
  }
  static bool put(SavedGemms& saved, const FieldValue& value) {
    return put_names(saved, value, saved_gemms_from);
  }
};

template <>
struct FieldType<OffloadedModules> : ModulesField<OffloadedModules> {
  static Words words() { return split(text_of(kAllOffloadedModules)); }
  static bool put(OffloadedModules& modules, const FieldValue& value) {
    return put_names(modules, value, offloaded_modules_from);
  }
};

namespace {

using S = Strategy;

// A row is FIELD(member) with what follows in StrategyField; RANGED adds the range of its numbers.
#define FIELD(member) LLMSIM_FIELD(S, member)
#define RANGED(member, least, most) ranged(FIELD(member), least, most)

constexpr double kRanks = 1 << 20;
constexpr double kBlocks = 65536;
constexpr double kLoad = 1024;

bool has_contexts(const S& s) { return s.cp > 1; }
bool has_inner_contexts(const S& s) {
  return s.cp > 1 && s.cp_scheme == ContextScheme::AllToAllRing && s.cp_inner;
}
// Of one stage the usual order says nothing; gpipe holds every micro-batch, others are refused.
bool has_order(const S& s) {
  return s.pp > 1 || s.pipeline_schedule != PipelineSchedule::OneForwardOneBackward;
}
bool orders_matter(const S& s) {
  return s.pp > 1 && s.dp > 1 && s.mesh_order != MeshOrder::PipelineLast;
}
bool has_shards(const S& s) { return s.sharding != Sharding::None && s.shard_size > 0; }
bool counts_blocks(const S& s) {
  return s.recompute.kind == RecomputeKind::EveryN || s.recompute.every_n > 1;
}
bool names_modules(const S& s) { return s.recompute.kind == RecomputeKind::Selective; }
bool saves_gemms(const S& s) { return s.recompute.kind == RecomputeKind::Op; }

using enum Written;

// A field whose default is that of the framework.
StrategyField of_framework(StrategyField field, const char* example) {
  field.help += std::string("; default that of the framework; example: ") + example;
  field.of_framework = true;
  return field;
}

}  // namespace

const std::vector<StrategyField>& strategy_fields() {
  static const std::vector<StrategyField> all = {
      {FIELD(precision), "NAME",
       "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; default the usual 16-bit format of the "
       "device; example: --precision fp8"},
      {FIELD(optimizer), "NAME",
       "adamw, adam, adam8bit, lion, adafactor, sgd, momentum, lamb or muon; default adamw; "
       "example: --optimizer lion"},
      {FIELD(muon_tp_mode), "NAME",
       "how muon orthogonalises matrices that tensor ranks divide: blockwise (each its own shard), "
       "duplicated (each all of it) or distributed; default that of the framework; example: "
       "--optimizer muon --tp 4 --muon-tp-mode distributed",
       "", OrNothing},
      {RANGED(micro_batch, 1, kRanks), "SEQS",
       "sequences per forward pass of a replica; default 1; example: --micro-batch 2"},
      {RANGED(global_batch, 1, 1e9)},
      {RANGED(dp, 1, kRanks), "N",
       "data-parallel ranks; default gpus / (tp * pp * cp); example: --dp 8"},
      {RANGED(tp, 1, kRanks), "N", "tensor-parallel ranks; default 1; example: --tp 8"},
      {RANGED(pp, 1, kRanks), "N", "pipeline stages; default 1; example: --pp 4"},
      {RANGED(cp, 1, kRanks), "N", "context-parallel ranks; default 1; example: --cp 2"},
      {RANGED(ep, 1, kRanks), "N",
       "expert-parallel ranks, inside dp * cp; default 1; example: --ep 8"},
      {FIELD(mesh_order), "NAME",
       "order in which ranks are numbered, the fastest dimension first: tp-cp-ep-dp-pp or "
       "tp-cp-ep-pp-dp (pipelines inside nodes); default tp-cp-ep-dp-pp; example: --mesh-order "
       "tp-cp-ep-pp-dp",
       "", OrNothing, orders_matter},
      of_framework({FIELD(cp_scheme), "NAME",
                    "how context ranks share keys and values: ring, all-gather, all-to-all or "
                    "all-to-all+ring",
                    "", OrNull, has_contexts},
                   "--cp-scheme all-gather"),
      {RANGED(cp_inner, 1, kRanks), "N",
       "context ranks of an all-to-all under --cp-scheme all-to-all+ring, with a ring over such "
       "groups; default the most that divide heads and share a fast domain; example: --cp 8 "
       "--cp-scheme all-to-all+ring --cp-inner 4",
       "", OrNothing, has_inner_contexts},
      of_framework(
          {FIELD(cp_balanced), "",
           "context ranks hold an early and a late piece of a sequence (zigzag), or plain pieces",
           "--cp-balanced,!--cp-unbalanced", OrNull, has_contexts},
          "--cp-unbalanced"),
      {RANGED(virtual_stages, 1, kRanks), "N",
       "model chunks per pipeline stage, interleaved; default 1; example: --virtual-stages 2"},
      {FIELD(pipeline_schedule), "NAME",
       "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-v, v-half, v-min or dualpipe; "
       "default 1f1b, or interleaved with virtual stages; example: --schedule zb-h1",
       "--schedule,--pipeline-schedule", OrNull, has_order},
      {FIELD(embeddings_as_layers), "",
       "the embedding and the LM head each count as a layer; default where only that divides "
       "evenly; example: --pp 8 --embeddings-as-layers"},
      {RANGED(stage_layers, 0, kBlocks), "LIST",
       "transformer layers of each pipeline stage, first to last; default even; example: --pp 4 "
       "--stage-layers 19,21,21,19",
       "", OrNothing},
      {FIELD(sharding), "MODE",
       "none, zero1, zero2, zero3 or hsdp; default that of the framework; example: --sharding "
       "zero3"},
      {RANGED(shard_size, 1, kRanks), "N",
       "ranks that share one copy of what is sharded; default all, under hsdp none; example: "
       "--sharding hsdp --shard-size 8",
       "", OrNull, has_shards},
      {RANGED(etp, 1, kRanks), "N",
       "ranks that divide each expert; default as tp; 1: whole experts, ep inside tp * dp * cp; "
       "example: --tp 4 --ep 8 --etp 1",
       "", OrNothing},
      {FIELD(moe_dispatch), "NAME",
       "how tokens reach experts: alltoall, allgather or deepep (once to each rank and node); "
       "default alltoall; example: --moe-dispatch deepep",
       "", OrNothing},
      {FIELD(moe_overlap), "",
       "dispatch and combine overlap with the other pass of another micro-batch; default exposed; "
       "example: --moe-overlap",
       "", OrNothing},
      {FIELD(moe_captured), "",
       "captured graphs (--cuda-graph) hold the experts too; default on; example: --cuda-graph "
       "--no-moe-captured",
       "", OrNothing},
      {RANGED(moe_imbalance, 1, kLoad), "RATIO",
       "rows of the busiest expert rank relative to the mean; 1: balance is forced; default what a "
       "balancing loss leaves, 1.01 to 1.15; example: --moe-imbalance 1.3",
       "", OrNothing},
      {RANGED(moe_capacity, 1, kLoad), "RATIO",
       "rows of an expert, dropped or padded to this many times the mean; default dropless; "
       "example: --moe-capacity 1.25",
       "", OrNothing},
      of_framework(
          {FIELD(sequence_parallel), "", "shard norms and residuals over the tensor ranks"},
          "--tp 8 --sequence-parallel"),
      of_framework({FIELD(flash_attention), "", "flash attention, or attention as separate kernels",
                    "--flash,--flash-attention,!--no-flash,!--no-flash-attention"},
                   "--no-flash"),
      of_framework({FIELD(compile), "", "memory-bound operators fused by a compiler"}, "--compile"),
      of_framework({FIELD(fused_cross_entropy), "", "logits in chunks, never whole"},
                   "--fused-cross-entropy"),
      of_framework({FIELD(tp_overlap), "", "tensor-parallel collectives overlap with their GEMMs"},
                   "--tp-overlap"),
      of_framework({FIELD(gradient_overlap), "", "gradients are reduced during the backward pass"},
                   "--no-gradient-overlap"),
      of_framework({FIELD(gather_overlap), "",
                    "sharded weights are gathered during the passes that need them"},
                   "--no-gather-overlap"),
      {FIELD(gradient_clip), "",
       "gradients are clipped to a norm before the update; default on; example: --no-gradient-clip",
       "", OrNothing},
      of_framework({FIELD(cuda_graph), "", "no launch cost per kernel"}, "--cuda-graph"),
      // What recomputation and offload are has options of its own kind: --recompute selective=mlp,
      // --offload optimizer.
      {FIELD(recompute.kind)},
      {RANGED(recompute.every_n, 1, kBlocks), "", "", "", OrNull, counts_blocks},
      {RANGED(recompute.share, 1, kBlocks), "", "", "", OrNothing},
      {RANGED(recompute.blocks, 1, kBlocks), "", "", "", OrNothing},
      {FIELD(recompute.modules), "", "", "", OrNothing, names_modules},
      {FIELD(recompute.saved), "", "", "", OrNothing, saves_gemms},
      {FIELD(offload.optimizer)},
      {FIELD(offload.parameters)},
      {FIELD(offload.activations)},
      {RANGED(offload.blocks, 1, kBlocks), "", "", "", OrNothing},
      {FIELD(offload.modules), "", "", "", OrNothing}};
  return all;
}

#undef RANGED
#undef FIELD

const StrategyField* find_strategy_field(const std::string& key) {
  return find_field(strategy_fields(), key);
}

bool is_stated(const StrategyField& field, const Strategy& strategy) {
  if (field.written == Always) return true;
  return field.is_stated ? field.is_stated(strategy) : field.get(strategy) != field.get(Strategy{});
}

void put(const PartialStrategy& partial, Strategy& strategy) {
  put(strategy_fields(), partial, strategy);
}

}  // namespace llmsim::sim
