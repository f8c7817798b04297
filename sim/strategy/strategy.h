// How a model is laid out over devices, and how one optimizer step is carried out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/field.h"
#include "sim/strategy/adapters.h"
#include "sim/strategy/recompute.h"

namespace llmsim::sim {

// Training recipe: the arithmetic of the linear layers.  Attention, norms and the loss stay in 16
// bits (or fp32) in the 8- and 4-bit recipes; Nf4 and Int4 are frozen weights of a fine-tuning run
// that are unpacked to bf16.
enum class Precision { Fp32, Tf32, Fp16, Bf16, Fp8, Mxfp8, Nvfp4, Nf4, Int4 };

// Format in which the linear layers multiply, and in which activations travel and are saved.
DType matmul_dtype(Precision precision);
DType activation_dtype(Precision precision);
// The format of GEMMs that low-precision recipes leave alone: those of unfused attention, and of a
// loss in chunks.
DType high_precision_matmul_dtype(Precision precision);

enum class OptimizerKind { AdamW, Adam, Adam8bit, Lion, Adafactor, Sgd, Momentum, Lamb, Muon };

// How Muon orthogonalises a matrix that tensor ranks divide, see operators/newton_schulz.h.
//   Blockwise    each rank its own shard, alone: the update depends on the number of ranks
//   Duplicated   the ranks gather the matrix, and each orthogonalises all of it
//   Distributed  each rank multiplies its shard, and the ranks sum X X^T in every step
// Source: NVIDIA/Megatron-LM megatron/training/arguments.py @d98e8a6, --muon-tp-mode.
enum class MuonTensorMode { Blockwise, Duplicated, Distributed };

// Where the optimizer states, gradients and weights live across the data-parallel group.
//   None   every rank holds everything (DDP)
//   Zero1  optimizer states and master weights sharded
//   Zero2  and gradients
//   Zero3  and weights (FSDP FULL_SHARD)
//   Hsdp   Zero3 inside groups of `shard_size`, replicated across them
enum class Sharding { None, Zero1, Zero2, Zero3, Hsdp };

// How context-parallel ranks share keys and values, see operators/attention_core.h.
//   Ring          ring attention: keys and values travel from rank to rank while attention computes
//                 (Liu et al., arXiv 2310.01889)
//   AllGather     each rank gathers the keys and values of all
//   AllToAll      heads for tokens, DeepSpeed-Ulysses (Jacobs et al., arXiv 2309.14509)
//   AllToAllRing  heads for tokens inside groups of `cp_inner` neighbours, and a ring over these
//                 groups: Megatron Core's "a2a+p2p", USP (Fang and Zhao, arXiv 2405.07719)
enum class ContextScheme { Ring, AllGather, AllToAll, AllToAllRing };

// The order of forward and backward passes, see pipeline/stage_order.h; ZbH1 and ZbV are
// zero-bubble schedules, VHalf and VMin hold a half and a third of the activations.
enum class PipelineSchedule {
  GPipe,
  OneForwardOneBackward,
  Interleaved,
  ZbH1,
  ZbV,
  VHalf,
  VMin,
  DualPipe
};

// Whether a stage has two chunks, and micro-batches go down the stages through the first ones and
// up again through the second.
constexpr bool is_v_shaped(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::ZbV || schedule == PipelineSchedule::VHalf ||
         schedule == PipelineSchedule::VMin;
}

// How the experts of an MoE model are divided, and how tokens reach them.
//
// The ranks of one pipeline stage, tp * cp * dp of them, hold every expert etp * ep * edp = tp * cp
// * dp ways: etp ranks share one expert, ep groups of them have different ones, and edp of those
// sets are copies.  Experts are numbered as the rest of the model is: etp fastest, then ep, then
// edp.  With etp = tp the expert ranks lie inside dp * cp; with etp = 1 a rank has whole experts.
//
// What carries tokens to the ranks that have their experts, and results back:
//   AllToAll      one row for each expert that a token visits, by an all-to-all of the collective
//                 library
//   AllGather     all tokens of the expert ranks are gathered, each rank picks its own; results are
//                 reduce-scattered
//   Deduplicated  a kernel of its own sends a token once to each node and once to each rank that it
//                 visits, however many of its experts are there (DeepEP, HybridEP)
enum class ExpertDispatch { AllToAll, AllGather, Deduplicated };

// How ranks are numbered, the fastest dimension first.
//   PipelineLast  tp-cp-ep-dp-pp, a torch DeviceMesh (pp, dp, cp, tp): data ranks are close to each
//                 other, the stages of a pipeline are on distant nodes
//   DataLast      tp-cp-ep-pp-dp, Megatron Core's --use-tp-pp-dp-mapping: the other way round.
//                 Experts and all else must have as many data ranks (validity.h)
enum class MeshOrder { PipelineLast, DataLast };

struct Strategy {
  // The mesh.  dp * tp * pp * cp = number of devices; experts divide
  // the same ranks (ExpertDispatch).
  int dp = 1;  // data-parallel ranks
  int tp = 1;  // tensor-parallel ranks
  int pp = 1;  // pipeline stages
  int cp = 1;  // context-parallel ranks
  int ep = 1;  // expert-parallel ranks
  MeshOrder mesh_order = MeshOrder::PipelineLast;
  ContextScheme cp_scheme = ContextScheme::Ring;
  // Ranks of an all-to-all under AllToAllRing; none: what suits the cluster (usual_context_inner of
  // mesh.h), and 1 until that is known.
  std::optional<int> cp_inner = {};
  // Each context rank holds an early and a late piece of a sequence (zigzag): equal causal work.
  bool cp_balanced = true;
  bool sequence_parallel = false;  // norms and residuals sharded over the tensor ranks

  // Experts, see ExpertDispatch.
  // Ranks that divide each expert; none: as many as divide the rest (tp).
  std::optional<int> etp = {};
  ExpertDispatch moe_dispatch = ExpertDispatch::AllToAll;
  // Dispatch and combine overlap with the opposite pass of another micro-batch.
  bool moe_overlap = false;
  // Captured graphs (cuda_graph) hold the experts too, not only modules of fixed shapes.
  bool moe_captured = true;
  // Rows of the busiest rank relative to the mean; all others wait for it.  None: the balance of a
  // router under a balancing loss (operators/experts.h); 1: balance forced, as in benchmarks.
  std::optional<double> moe_imbalance = {};
  // Rows of an expert relative to the mean, padded or dropped to it; none: dropless.
  std::optional<double> moe_capacity = {};

  // Model chunks per pipeline stage: 2 in a V; DualPipe holds two copies of its one chunk.
  int virtual_stages = 1;
  PipelineSchedule pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  // The embedding and the LM head each count as a layer when layers are divided over stages.
  bool embeddings_as_layers = false;
  // Transformer layers of each stage, or of each model chunk; empty: an even split.
  std::vector<int> stage_layers = {};

  Sharding sharding = Sharding::None;
  // Ranks that share one copy of what is sharded; 0: all data and context ranks (not under Hsdp).
  int shard_size = 0;

  int micro_batch = 1;   // sequences per forward pass of one replica
  int global_batch = 1;  // sequences per optimizer step

  Precision precision = Precision::Bf16;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  std::optional<MuonTensorMode> muon_tp_mode = {};  // none: that of the framework
  Recompute recompute;
  Offload offload;
  std::optional<Adapters> adapters;

  bool flash_attention = true;
  bool compile = false;  // torch.compile or another compiler that fuses memory-bound operators
  bool fused_cross_entropy = false;  // logits are made and consumed in chunks, never whole
  bool tp_overlap = false;           // tensor-parallel collectives overlapped with their GEMMs
  bool gradient_overlap = true;      // gradients are reduced during the backward pass
  bool gather_overlap = true;  // sharded weights are gathered during the passes that need them
  // The norm of all gradients is taken, and they are scaled by it, before the update.
  bool gradient_clip = true;
  bool cuda_graph = false;  // no launch cost per kernel: the step is not launch-bound

  int num_devices() const { return dp * tp * pp * cp; }
  int context_inner_ranks() const { return cp_inner.value_or(1); }
  // Groups of one rank leave the ring alone, one group of all ranks the all-to-all.
  ContextScheme context_scheme() const;
  // Forward passes of one replica per optimizer step: the steps of gradient accumulation.
  int num_microbatches() const { return global_batch / (dp * micro_batch); }
  // Ranks that divide one expert.
  int expert_tensor_ranks() const { return etp.value_or(tp); }
  // Whether experts are loaded evenly and reached by all-to-alls of rows.
  bool plain_experts() const;
  // Whether the gradients of experts are summed over other ranks than those of all else.
  bool divides_experts() const { return ep > 1 || expert_tensor_ranks() != tp; }
  // Ranks that have copies of the same experts.
  int expert_data_ranks() const;
  // Ranks that share one copy of the sharded states, at least 1: 1 where nothing is sharded.
  int shard_ranks() const;
  // Whether there are several copies of all shards, whose gradients are summed over them.
  bool replicates_shards() const;
  // The same for routed experts, of which the expert ranks among them have different ones.
  int expert_shard_ranks() const;

  bool operator==(const Strategy&) const = default;
};

// Names as run files spell them: "bf16", "adamw", "zero3", "1f1b" ("zero-bubble" is ZB-H1),
// "all-gather", "all-to-all+ring" ("a2a+p2p" too).
NameTable<Precision> name_table(Precision);
NameTable<OptimizerKind> name_table(OptimizerKind);
// "blockwise", "duplicated", "distributed".
NameTable<MuonTensorMode> name_table(MuonTensorMode);
NameTable<Sharding> name_table(Sharding);
NameTable<PipelineSchedule> name_table(PipelineSchedule);
NameTable<ContextScheme> name_table(ContextScheme);
// "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp".
NameTable<MeshOrder> name_table(MeshOrder);
// "alltoall", "allgather", "deepep"; "hybridep" and "flex" (Megatron's name for what runs either)
// are Deduplicated too.
NameTable<ExpertDispatch> name_table(ExpertDispatch);

// The fields of a strategy by name: one table for run files, options, JSON, tables and ablations.
//
// A key is that of the training section of a run file; a dot stands for an object in it
// ("recompute.kind").  A new field of a Strategy is a member, a row of the table and a formula.
// Adapters stand in the model of a run file and are no field.

// How a field is written where it says nothing under a strategy (the scheme of context ranks where
// there is one).
enum class Written { Always, OrNull, OrNothing };

struct StrategyField : Field<Strategy> {
  const char* value_name = "";  // of its option's value: "N", "SEQS"
  std::string help{};           // of its option: what, default, example; empty: none of its own
  const char* options = "";     // spellings of its option; empty: the key with dashes
  Written written = Written::Always;
  // Whether it means anything under a strategy; null: where it differs from a plain strategy's.
  bool (*is_stated)(const Strategy&) = nullptr;
  // The framework has a default of its own (hwdb/frameworks/frameworks.h).
  bool of_framework = false;
};

const std::vector<StrategyField>& strategy_fields();

// Null for an unknown key.
const StrategyField* find_strategy_field(const std::string& key);

// Whether a field is written under a strategy; false: null or nothing stands there.
bool is_stated(const StrategyField& field, const Strategy& strategy);

// Fields of a strategy by key.
using PartialStrategy = PartialRecord;

// Throws Error for an unknown key, and for a value that its field cannot have.
void put(const PartialStrategy& partial, Strategy& strategy);

}  // namespace llmsim::sim
