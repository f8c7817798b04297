// What a training framework does with a strategy: how many bytes it stores, how many kernels it
// launches, what it overlaps.
//
// A framework holds facts about software ("Megatron-LM stores gradients in fp32"), never about a
// device or a model.  The values ship in hwdb with a source each; the defaults here describe a
// plain, well-written PyTorch program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/field.h"
#include "sim/base/quantity.h"
#include "sim/hardware/device.h"
#include "sim/strategy/layout_ratio.h"
#include "sim/strategy/low_precision_recipe.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

enum class Sharding;

// How memory-bound operators become kernels.
//   Eager     one kernel per framework operator
//   Compiled  chains of elementwise operators and reductions fused by a compiler
//   Fused     hand-written fused kernels (bias+GELU, bias+dropout+residual, fused norms)
enum class ElementwiseFusion { Eager, Compiled, Fused };
NameTable<ElementwiseFusion> name_table(ElementwiseFusion);  // "eager"

// What a framework's fused cross entropy does with the logits.
//   Kernel      one kernel makes the loss and one its gradient; the logits stay whole
//   Logits      the 16-bit logits stay whole, their fp32 copies are made chunk by chunk
//   Recomputed  each chunk of tokens is checkpointed: its logits are recomputed in the backward
//               pass
//   Gradient    logits, loss and both gradients of the head, chunk by chunk, in the forward pass
enum class FusedLoss { Kernel, Logits, Recomputed, Gradient };
NameTable<FusedLoss> name_table(FusedLoss);  // "kernel"

// How offloaded values cross the host link.
struct HostCopies {
  // Checkpoints through memory that is not pinned, while the device waits.  None: pinned memory, at
  // the rate of the host link and overlapped with compute.
  std::optional<BytesPerSecond> checkpoints_down;
  std::optional<BytesPerSecond> checkpoints_up;
  // Sums of earlier micro-batches are read back and added to on the device.
  bool gradients_return = false;
  double last_gradient_bytes = 0.0;  // per gradient, sent once more in fp32 when the step ends
  // The host casts gradients to fp32 when the step ends, while the device waits; gradient_cast is
  // the time of one gradient.
  bool casts_gradients = false;
  Seconds gradient_cast{0.0};
  // Time of the host's optimizer relative to one that reads and writes every value once.
  double update_slowdown = 1.0;
  bool operator==(const HostCopies&) const = default;
};

// Bytes that a framework stores for every parameter.  How many optimizer states there are follows
// from the optimizer.
struct ParameterStorage {
  double weight_bytes = 2.0;         // the copy that the forward pass reads
  double gradient_bytes = 2.0;       // gradient produced by backward
  double main_gradient_bytes = 0.0;  // a second gradient buffer in higher precision; 0: none
  double master_bytes = 4.0;         // fp32 master weights; 0: the weights themselves are updated
  double state_bytes = 4.0;          // one optimizer state value
  bool operator==(const ParameterStorage&) const = default;
};

// Host time of kernel launches and other calls; a step that these
// bound is launch-bound (schedule/launch.h).
struct HostTimes {
  double factor = 1.0;       // multiplies all of these but the last
  Seconds per_kernel{6e-6};  // to launch one kernel, eager
  // Bookkeeping of a checkpointed block: random states, graph rebuilding.
  Seconds per_recomputed_block{0.0};
  // A pass of a block with experts: the host waits for the number of rows of each before it can
  // launch what follows, and dispatches by functions in Python.
  Seconds per_moe_block{0.0};
  // Bookkeeping of a GEMM in an 8- or 4-bit format: scales, caches, amax.
  Seconds per_low_precision_gemm{0.0};
  Seconds per_unit{0.0};   // hooks that fetch and release a unit of sharded weights around a pass
  Seconds per_slice{0.0};  // for each rank's slice of a unit
  Seconds per_gradient{0.0};  // hook that takes the gradient of one tensor to its bucket
  Seconds per_step{0.0};      // between steps: data, logging, scaler synchronisation
  bool operator==(const HostTimes&) const = default;
};

// What a run pays whose steps are the same to the bit (cost/contention.h).
struct Determinism {
  bool fills_new_tensors = false;
  // Rate of attention's backward pass relative to the kernel that sums in any order.
  double attention_backward = 1.0;
  bool operator==(const Determinism&) const = default;
};

// The output projection's loss.
struct LossBehaviour {
  bool fp32_logits = true;         // the logits are cast up to fp32
  bool gradient_in_place = false;  // without that copy: the gradient replaces the logits
  double fp32_logit_copies = 2.0;  // of which this many live at once: the copy and its gradient
  // The same where tensor ranks share the vocabulary; 0: as many.
  double parallel_logit_copies = 0.0;
  bool compiled = false;                  // with the model, where that is: no fp32 copy is written
  FusedLoss fused = FusedLoss::Gradient;  // what a fused cross entropy is
  // Gradient: what waited is multiplied by the gradient of the loss, as autograd does.
  bool scales_gradients = true;
  int chunks = 0;  // of its tokens; 0: as many as make a chunk's logits as large as its input
  bool operator==(const LossBehaviour&) const = default;
};

// Gradients on their way to the optimizer.
struct GradientBehaviour {
  bool reduced_in_fp32 = false;  // data-parallel reduction sends 4 bytes per parameter
  // After each micro-batch, not once per step; none: where weights are gathered for each.
  std::optional<bool> reduced_every_microbatch;
  // Zero1, Zero2: every rank gets all sums (all-reduce), also of what others update.
  bool reduced_whole = false;
  bool accumulated_by_gemm = false;  // the weight-gradient GEMM adds to the main buffer by itself
  bool fused_bias = false;           // sums over tokens come out of the weight-gradient GEMM
  // Of whole gradients around a reduction: into and out of buckets, division by the ranks.
  double copies = 0.0;
  // Gradients that are one message where weights are whole; 0: those of a block.
  double bucket = 0.0;
  double bucket_per_rank = 0.0;  // at least this many for each data-parallel rank
  // Replicated gradients are reduced in buckets that are a second copy of them.
  bool copied_into_buckets = false;
  bool persist = false;   // gradient buffers stay allocated between steps
  bool offloaded = true;  // an optimizer on the host takes them there as they come
  // Compute waits while gradients are scattered (gathers still overlap with it).
  bool scatters_alone = false;
  bool operator==(const GradientBehaviour&) const = default;
};

// Weights that are sharded (Zero3, Hsdp; `gradient_blocks` Zero2 too).
struct ShardedWeights {
  bool regathers_in_backward = true;  // freed after forward and gathered again
  // Units inside a checkpointed block are freed after its recomputed forward pass and gathered
  // again for its backward pass.  False: those that the recomputation has gathered stay.
  bool regathers_recomputed = false;
  double gathered_blocks = 2.0;  // blocks whose whole weights are on the device at once
  double gradient_blocks = 1.0;  // blocks whose whole gradients are
  // The weight gradient of a GEMM is a piece of its unit's whole gradient, in the format of the
  // gathered weight; it is cast in the reduction alone.
  bool gradients_of_units = false;
  // Stay gathered until so many are, and until their next use if it comes within so many; 0:
  // `gathered_blocks` says it, and none stays for its next use.
  double live_parameters = 0.0;
  // Blocks whose weights and gradients are one message; 1 / n: every block is n messages; 0: the
  // whole model is one.
  double unit_blocks = 1.0;
  // The embedding, every block and the head are each one flat message, padded to the ranks that
  // share it; buckets of gradients run through all of them, and updated whole weights are gathered
  // in place, as they are stored.  False: embedding and LM head are one message.
  bool flat_units = false;
  // Every module with weights has hooks of its own, not every block.
  bool modules_are_units = false;
  int prefetch_units = 1;  // gathers issued before the unit they are for is the next one; 0: none
  // The embedding and the head are not freed between forward and backward.
  bool root_stays_gathered = true;
  // In a pipeline units stay gathered from a step's first forward pass to its last backward pass,
  // which alone reduces gradients.
  bool whole_in_pipelines = false;
  bool keeps_frozen = false;   // frozen weights stay gathered until the step ends
  double weight_copies = 0.0;  // copies of whole weights around a gather
  // The host waits for the device before each gather: it launches nothing ahead.
  bool fetches_synchronise = false;
  bool operator==(const ShardedWeights&) const = default;
};

// Activations that are saved for backward although no operator needs them: a framework's share of
// activation memory.
struct SavedActivations {
  // Pipelines: every micro-batch in flight holds what its stage has sent on.
  bool stage_outputs = false;
  bool partitioned_checkpoints = false;  // stored block inputs are divided over the tensor ranks
  // Grouped keys and values are copied out to all heads before attention.
  bool expanded_kv_heads = false;
  // Rotated q and k are new tensors, and the fused projection's output is saved too.
  bool fused_qkv = false;
  // Frozen linear layers keep their input although they have no weight gradient.
  bool frozen_inputs = false;
  // FlashAttention gives a transposed output, of which the projection keeps a copy.
  bool flash_output_copied = false;
  // Under sequence parallelism column-parallel layers save the gathered input; else each rank its
  // own tokens, which are gathered again.
  bool gathered_inputs = false;
  // The router's weights multiply an expert's activation, not its output.
  bool weighted_in_experts = false;
  // Gate and values of a gated MLP are saved in 8 bits, without scales, until its backward pass.
  // Source: Megatron Core TransformerConfig.activation_func_fp8_input_store.
  bool fp8_activation_inputs = false;
  double parts_per_block = 1.0;  // modules of a block that count when checkpoints are spaced
  double adapter_dropout = 0.0;  // > 0: an adapter keeps its input after dropout, and the mask
  bool operator==(const SavedActivations&) const = default;
};

// MoE models.
struct ExpertBehaviour {
  bool routes_shards = false;  // with sequence parallelism each tensor rank routes its own tokens
  // Standard deviation of what the experts of a layer get of a micro-batch, relative to the mean,
  // while a loss balances them.
  double load_spread = 0.0;
  bool grouped_kernel = false;  // one kernel multiplies the rows of all experts; else one for each
  bool copies_to_pad = false;  // rows of low-precision GEMMs are copied to and from a padded tensor
  // The weighted bias of the last GEMM is added in fp32, expert by expert.
  bool biases_one_by_one = false;
  // Tokens are dispatched to experts in the low-precision format, with its scales; results
  // come back in 16 bits.
  bool dispatches_low_precision = false;
  // The multiprocessors that the kernels of a deduplicating dispatch are given, and at which rate
  // each hands over tokens that arrive from its scale-up domain; 0: as fast as the links.
  int dispatch_sms = 0;
  BytesPerSecond dispatch_sm_bandwidth{0.0};
  bool operator==(const ExpertBehaviour&) const = default;
};

// The optimizer step on the device.
struct UpdateBehaviour {
  // One kernel per update; false: a pass over all parameters per arithmetic operation.
  bool fused = true;
  // Unfused: the host launches the kernels of each tensor one after the other, which takes longer
  // than they do where tensors are small.
  bool tensor_by_tensor = false;
  bool in_backward = false;  // each gradient is used and freed as soon as it exists
  // Temporaries are those of one unit of parameters at a time, not of all.
  bool unit_by_unit = false;
  // The squared gradient norm of sharded states is a collective of its own, of 4 bytes.
  bool sums_norm = false;
  // Bytes per updated parameter for the gradient that the optimizer reads, flat or
  // cast, and how many of them remain while it runs, less the gradients that are
  // freed by then (operators/update.h).
  double temporary_bytes = 0.0;
  double kept_temporary_bytes = 0.0;
  // Unfused: temporary values of each parameter that exist at once.
  double temporary_values = 1.0;
  // Parameters of a rank that are updated together, and have temporaries together; 0: all.
  double parameters_at_once = 0.0;
  // Of Muon, see operators/newton_schulz.h.
  MuonTensorMode muon_tp_mode = MuonTensorMode::Duplicated;  // where the strategy does not say
  // X X^T and A A are made by kernels that make one half of a symmetric result.
  bool symmetric_gemms = false;
  // Newton-Schulz iterates on the smaller X X^T in the place of X.
  bool gram_newton_schulz = false;
  // Gate and up of a gated MLP are two matrices; false: one.
  bool splits_gate = true;
  // Ranks that share states have whole tables too, not equal pieces of what is left to Adam.
  bool whole_tables = false;
  // Sharded momentum is gathered by every rank; false: by the one that orthogonalises it.
  bool gathers_momentum = false;
  bool operator==(const UpdateBehaviour&) const = default;
};

// Memory that is neither the model's nor its activations', and how an allocator fills the rest.
struct MemoryReserve {
  Bytes framework{0.0};  // buckets of the data-parallel collectives
  // Of the matrix library: one for the forward and one for the backward thread.
  int matmul_workspaces = 2;
  std::optional<Bytes> matmul_workspace;  // size of one; none: the device's
  bool transformer_engine = false;        // TransformerEngine has a workspace of its own
  // And a gradient that nobody reads for each shape of weight, where GEMMs accumulate.
  bool dummy_weight_gradients = false;
  int grouped_gemm_streams = 0;  // and one for each of the streams that run an expert's GEMMs
  // Bytes reserved for a byte that is allocated and freed within a step, as allocators are known.
  double fragmentation = 1.24;
  // Of the gaps, fragmentation - 1: what measured peaks of the framework say of them.
  double gaps_factor = 1.0;
  // Share of fragmentation that an allocator running full cannot give back.
  double unrecoverable_gaps = 0.25;
  // Of a byte that is allocated and freed within a step, what the pool of captured graphs holds
  // beyond it where they hold whole passes, experts too: blocks that other streams have used are
  // not handed out again while a graph is captured.
  double captured_growth = 0.0;

  double reserved_per_byte() const { return 1.0 + gaps_factor * (fragmentation - 1.0); }
  bool operator==(const MemoryReserve&) const = default;
};

// Standard deviations of ln(measured / predicted step time), and how many of them a 90 % interval
// holds on either side (sim/predict.h).
struct PredictionErrors {
  double efficiency = 0.10;  // uncertainty of Framework::efficiency
  double site = 0.10;        // of one study or cluster, all its runs alike
  double moe_site = 0.20;    // the same with experts, expert or context parallelism
  double cell = 0.08;        // of its runs on one device, in one framework and precision
  double run = 0.05;         // of one run among those of a cell
  // Of what clusters differ in, as far as a step depends on it (schedule/step_error.h): the rate of
  // their collectives, the times of their hosts, what a program does between steps, and the rate of
  // memory-bound kernels, which only site fits tell from that of all else.
  double collectives = 0.0;
  double hosts = 0.0;
  double between_steps = 0.0;
  double memory_bound = 0.10;
  // Clusters differ in that: so many runs is one's own known by before it has any.
  double noise_runs = 2.0;
  double faster = 1.645;
  double slower = 1.645;
  // The same after one or two runs of the cluster, and after three or more (calibrate/site_fit.h).
  double few_faster = 1.645;
  double few_slower = 1.645;
  double site_faster = 1.645;
  double site_slower = 1.645;
  // Scale of ln(measured / predicted peak memory) of a run of a study that is not known: Student's
  // t with four degrees of freedom (sim/base/uncertainty.h).
  double memory = 0.10;
  // The same of what a run needs of its device, gaps and context included.
  double needed_memory = 0.10;
  // The one over the other.
  double needed_per_peak() const { return memory > 0.0 ? needed_memory / memory : 1.0; }
  bool operator==(const PredictionErrors&) const = default;
};

// The strategies that a framework offers (search/space.h).
struct FrameworkOffers {
  // Ranks in addition to data ranks.
  bool tensor_ranks = true;
  bool sequence_parallel = true;  // of tensor ranks
  bool context_ranks = true;
  bool pipelines = true;
  bool interleaving = true;   // several model chunks a stage
  bool uneven_stages = true;  // with different numbers of layers
  bool zero1 = true;
  bool zero2 = true;
  bool zero3 = true;
  bool hsdp = true;
  bool zero2_in_pipelines = true;
  bool zero3_in_pipelines = true;  // and HSDP
  // None, of attention alone, of every n-th block; else of all blocks, whole or by operator.
  bool plain_recompute = true;
  bool module_recompute = true;      // of single modules, not only of whole blocks
  bool activation_recompute = true;  // of all activation functions, else of those of experts alone
  bool operator_recompute = false;   // of all operators but some GEMMs
  // With captured graphs of modules: blocks that run again whole, and sharded parameters.
  bool recompute_in_graphs = true;
  bool shards_in_graphs = true;
  bool tp_overlap = false;           // with sequence parallelism
  bool tp_overlap_compiled = false;  // only in compiled blocks
  bool mesh_order = false;           // stages inside data ranks too (MeshOrder::DataLast)
  bool deduplicated_dispatch = false;
  // Of whole passes: without pipelines or with interleaved ones, and no block recomputed whole.
  bool moe_overlap = false;
  bool dualpipe = false;  // in addition to 1F1B
  bool operator==(const FrameworkOffers&) const = default;
};

struct Framework {
  std::string id = "pytorch";

  ElementwiseFusion fusion = ElementwiseFusion::Eager;
  // Where a strategy has flash attention.
  AttentionKernel attention_kernel = AttentionKernel::Flash2;
  // Weights are stored in fp32 and cast to the compute format in every forward pass (autocast);
  // false: cast once per step.
  bool casts_weights_per_microbatch = false;
  // And once more for the backward pass; the embedding's table too, in both.
  bool casts_weights_in_backward = false;
  // Learned positions are added, and their gradients summed, by kernels of their own.
  bool separate_position_kernel = false;
  // GELU written out as elementwise operators, each a kernel in eager mode.
  bool composed_activation = false;
  bool fused_rms_norm = false;  // one kernel in eager mode, which saves its input as it is
  bool softmax_in_fp32 = true;  // unfused attention casts its scores up for the softmax
  bool norms_in_fp32 = false;   // norms read and save fp32 copies of 16-bit activations
  double dropout = 0.0;  // > 0: dropout masks are stored (1 byte each) and dropout kernels run
  bool fuses_parallel_inputs = false;  // parallel blocks: qkv and the MLP's input are one GEMM
  // False: this project's runtime, whose kernels save and free what they must by hand.
  bool autograd = true;
  bool recompute_stops_early = false;  // a recomputed block ends where its last GEMM has its input
  // Backward collectives of column-parallel GEMMs overlap with the gradients that do not need them,
  // whatever tensor_overlap is.
  bool hides_column_gradients = false;
  // Pipelines without sequence parallelism: every tensor rank has all M bytes that go to the next
  // stage.  Where these are divided, each of the n ranks sends its share, and the receivers
  // gather all of them before they go on:
  //   t = send(M / n) + all_gather(M), over the tensor group
  // Sources: Megatron-LM megatron/p2p_communication.py (scatter_gather_tensors_in_pipeline, both
  // directions); DeepSpeed runtime/pipe/engine.py (PartitionedTensor: activations; gradients from
  // @e2fdd254e, 2021-09-29, on).
  bool divides_sent_activations = false;
  bool divides_sent_gradients = false;
  // Pipelines: a stage waits on its compute stream for every receive and send.  DeepSpeed
  // runtime/pipe/p2p.py @38327e07f: async_op must be False.
  bool blocking_transfers = false;

  ParameterStorage storage;
  LowPrecisionRecipe low_precision;
  LossBehaviour loss;
  GradientBehaviour gradients;
  ShardedWeights sharded;
  SavedActivations saved;
  ExpertBehaviour experts;
  UpdateBehaviour update;
  Determinism determinism;
  HostTimes host;
  HostCopies host_copies;  // under offload
  MemoryReserve reserve;

  // Per parameter of the whole model, which each process makes on the host before sharding.
  double host_load_bytes = 0.0;
  // Device time of compute under this framework relative to the kernels measured alone.
  double efficiency = 1.0;
  // Rate of the GEMMs that the matrix library picks unasked, relative to its best kernels.
  double gemm_efficiency = 1.0;
  // Rate of misaligned GEMMs relative to GemmCoefficients::misaligned_factor: releases of
  // the matrix library differ.
  double misaligned_gemm_gain = 1.0;
  // Rates of misaligned GEMMs, and of batches of them, in programs relative to those factors, which
  // single shapes show.
  double misaligned_gemm_rate = 1.0;
  double misaligned_batch_rate = 1.0;
  // Achieved collective bandwidth relative to the library measured alone.
  double collective_efficiency = 1.0;
  int vocab_multiple = 1;  // the vocabulary is padded to vocab_multiple * tensor_parallel

  FrameworkOffers offers;
  PredictionErrors errors;
  RatioErrors ratios;

  bool operator==(const Framework&) const = default;
};

// Whether a framework shards so, with stages or without.
bool is_offered(const FrameworkOffers& offers, Sharding sharding, bool has_stages);

// What a strategy has that its framework has not, a line each: "pp = 4: ddp has no pipelines".
std::vector<std::string> beyond_offers(const Framework& framework, const Strategy& strategy);

// The framework as it runs under a strategy: a compiler turns eager operators into fused kernels.
Framework effective_framework(const Framework& framework, const Strategy& strategy);

// Whether sharded weights are gathered once a step, and their gradients reduced once: those of a
// pipeline with ShardedWeights::whole_in_pipelines.  Source: PyTorch
// torch/distributed/pipelining/stage.py backward_maybe_with_nosync, torchtitan apply_fsdp.
bool gathers_units_once(const Framework& framework, const Strategy& strategy);

// Whether sharded weights are gathered in each pass of a step: all but those.
bool gathers_every_pass(const Framework& framework, const Strategy& strategy);

// Whether gradients are reduced after each micro-batch.  Where they are not, micro-batches add to
// whole gradients, of sharded weights too: FSDP's no_sync(), set_requires_gradient_sync(False).
bool reduces_every_microbatch(const Framework& framework, const Strategy& strategy);

// Whether eager operators run under PyTorch's autocast over fp32 weights, of 16-bit runs:
//
//   residual stream   fp32, as the embedding gives it and sums of fp32 and 16 bits are
//   norms, softmax    read and give fp32
//   linear layers     each casts its own input, which it saves, and its weight, which stays until
//                     its backward pass, or to the end of the forward pass of a recomputed block
//
// Compiled blocks cast where they read and save fp32 weights alone; TransformerEngine's modules
// cast their input.  Sources: PyTorch aten/src/ATen/autocast_mode.cpp cached_cast (weights that are
// leaves are cast once in an autocast context, other tensors for each reader) and its lists of
// operators; TransformerEngine pytorch/transformer.py.
bool runs_autocast(const Framework& framework, const Strategy& strategy);

// Whether an RMSNorm is elementwise kernels on fp32 copies.
inline bool composes_rms_norm(const Framework& framework) {
  return framework.fusion == ElementwiseFusion::Eager && !framework.fused_rms_norm;
}

// The fields of a framework's behaviour by name, for facts/frameworks.json, coefficients, settings
// and rules.
//
// A key is the path of its member: "gradients.reduced_in_fp32".  Times are in seconds, sizes in
// bytes, rates in bytes per second; biases alone may be negative.
const std::vector<Field<Framework>>& framework_fields();

}  // namespace llmsim::sim
