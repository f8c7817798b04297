#include "sim/strategy/strategy_fields.h"

namespace llmsim::sim {

// Modules are lists of names; of nothing but an empty list the default stays.
template <class Modules>
struct ModulesField {
  static constexpr FieldKind kind = FieldKind::Names;
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
constexpr double kSequences = 1 << 24;
constexpr double kBlocks = 65536;
constexpr double kLoad = 1024;

bool has_contexts(const S& s) { return s.cp > 1; }
bool has_stages(const S& s) { return s.pp > 1; }
bool has_shards(const S& s) { return s.sharding != Sharding::None && s.shard_size > 0; }
bool counts_blocks(const S& s) {
  return s.recompute.kind == RecomputeKind::EveryN || s.recompute.every_n > 1;
}
bool names_modules(const S& s) { return s.recompute.kind == RecomputeKind::Selective; }
bool saves_gemms(const S& s) { return s.recompute.kind == RecomputeKind::Op; }

using enum Written;

std::vector<StrategyField> recipe_fields() {
  return {
      {FIELD(precision), "NAME",
       "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; default the usual 16-bit format of the "
       "device; example: --precision fp8"},
      {FIELD(optimizer), "NAME",
       "adamw, adam, adam8bit, lion, adafactor, sgd, momentum, lamb or muon; default adamw; "
       "example: --optimizer lion"},
  };
}

std::vector<StrategyField> mesh_fields() {
  return {
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
      {FIELD(cp_scheme), "NAME",
       "how context ranks share keys and values: ring, all-gather or all-to-all; default that of "
       "the framework; example: "
       "--cp-scheme all-gather",
       "", OrNull, has_contexts, true},
      {FIELD(cp_balanced), "",
       "context ranks hold an early and a late piece of a sequence (zigzag), or plain pieces; "
       "default that of the framework; "
       "example: --cp-unbalanced",
       "--cp-balanced,!--cp-unbalanced", OrNull, has_contexts, true},
      {RANGED(virtual_stages, 1, kRanks), "N",
       "model chunks per pipeline stage, interleaved; default 1; example: --virtual-stages 2"},
      {FIELD(pipeline_schedule), "NAME",
       "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-v or dualpipe; default 1f1b, or "
       "interleaved with virtual stages; "
       "example: --schedule zb-h1",
       "--schedule,--pipeline-schedule", OrNull, has_stages},
      {FIELD(embeddings_as_layers), "",
       "the embedding and the LM head each count as a layer; default where only that divides "
       "evenly; example: --pp 8 "
       "--embeddings-as-layers"},
      {RANGED(stage_layers, 1, kBlocks), "LIST",
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
  };
}

std::vector<StrategyField> expert_fields() {
  return {
      {RANGED(etp, 1, kRanks), "N",
       "ranks that divide each expert; default as tp; 1: whole experts, ep inside tp * dp * cp; "
       "example: --tp 4 --ep 8 --etp 1",
       "", OrNothing},
      {FIELD(moe_dispatch), "NAME",
       "how tokens reach experts: alltoall, allgather or deepep (once to each rank and node); "
       "default alltoall; example: "
       "--moe-dispatch deepep",
       "", OrNothing},
      {FIELD(moe_overlap), "",
       "dispatch and combine beside the other pass of another micro-batch; default exposed; "
       "example: --moe-overlap",
       "", OrNothing},
      {FIELD(moe_captured), "",
       "captured graphs (--cuda-graph) hold the experts too; default on; example: --cuda-graph "
       "--no-moe-captured",
       "", OrNothing},
      {RANGED(moe_imbalance, 1, kLoad), "RATIO",
       "rows of the busiest expert rank relative to the mean; default 1; example: --moe-imbalance "
       "1.3",
       "", OrNothing},
      {RANGED(moe_capacity, 1, kLoad), "RATIO",
       "rows of an expert, dropped or padded to this many times the mean; default dropless; "
       "example: --moe-capacity 1.25",
       "", OrNothing},
  };
}

std::vector<StrategyField> switch_fields() {
  return {
      {FIELD(sequence_parallel), "",
       "shard norms and residuals over the tensor ranks; default that of the framework; example: "
       "--tp 8 --sequence-parallel",
       "", Always, nullptr, true},
      {FIELD(flash_attention), "",
       "flash attention, or attention as separate kernels; default that of the framework; example: "
       "--no-flash",
       "--flash,--flash-attention,!--no-flash,!--no-flash-attention", Always, nullptr, true},
      {FIELD(compile), "",
       "memory-bound operators fused by a compiler; default that of the framework; example: "
       "--compile",
       "", Always, nullptr, true},
      {FIELD(fused_cross_entropy), "",
       "logits in chunks, never whole; default that of the framework; example: "
       "--fused-cross-entropy",
       "", Always, nullptr, true},
      {FIELD(tp_overlap), "",
       "tensor-parallel collectives beside their GEMMs; default that of the framework; example: "
       "--tp-overlap",
       "", Always, nullptr, true},
      {FIELD(gradient_overlap), "",
       "gradients are reduced beside the backward pass; default that of the framework; example: "
       "--no-gradient-overlap",
       "", Always, nullptr, true},
      {FIELD(gather_overlap), "",
       "sharded weights are gathered beside the passes that need them; default that of the "
       "framework; example: "
       "--no-gather-overlap",
       "", Always, nullptr, true},
      {FIELD(gradient_clip), "",
       "gradients are clipped to a norm before the update; default on; example: --no-gradient-clip",
       "", OrNothing},
      {FIELD(cuda_graph), "",
       "no launch cost per kernel; default that of the framework; example: --cuda-graph", "",
       Always, nullptr, true},
  };
}

// What recomputation and offload are has options of its own kind: --recompute selective=mlp,
// --offload optimizer.
std::vector<StrategyField> memory_fields() {
  return {
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
      {FIELD(offload.modules), "", "", "", OrNothing},
  };
}

#undef RANGED
#undef FIELD

}  // namespace

const std::vector<StrategyField>& strategy_fields() {
  static const std::vector<StrategyField> all = [] {
    std::vector<StrategyField> fields;
    for (const auto part :
         {recipe_fields, mesh_fields, expert_fields, switch_fields, memory_fields}) {
      for (StrategyField& field : part()) fields.push_back(std::move(field));
    }
    return fields;
  }();
  return all;
}

const StrategyField* find_strategy_field(const std::string& key) {
  return find_field(strategy_fields(), key);
}

bool says_something(const StrategyField& field, const Strategy& strategy) {
  if (field.written == Always) return true;
  return field.says ? field.says(strategy) : field.get(strategy) != field.get(Strategy{});
}

void put(const PartialStrategy& partial, Strategy& strategy) {
  put(strategy_fields(), partial, strategy);
}

}  // namespace llmsim::sim
