#include "runtime/model/trainer.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/cuda_graph.h"
#include "runtime/library/device.h"
#include "runtime/model/initial_weights.h"
#include "sim/base/error.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/loss.h"
#include "sim/strategy/stages.h"

namespace llmsim::runtime {
namespace {

using Clock = std::chrono::steady_clock;

void require_offload(const sim::Strategy& strategy) {
  if (strategy.offload.parameters)
    throw Error(
        "the runtime does not execute offload.parameters = true; states and checkpoints go");
  if (strategy.offload.modules.any() || strategy.offload.blocks > 0)
    throw Error(
        "the runtime does not execute offload.modules or offload.blocks; all checkpoints go");
  if (strategy.offload.activations && strategy.recompute.kind != sim::RecomputeKind::Full) {
    throw Error("offload.activations = true moves the checkpoints of recompute = full, not of " +
                sim::text_of(strategy.recompute));
  }
}

// A bucket across the chunks of a stage would be sent when some of them are a micro-batch ahead.
void require_collectives(const ExchangeBehaviour& exchange, const sim::Strategy& strategy) {
  if (exchange.bucket < 0)
    throw Error("bucket = " + std::to_string(exchange.bucket) + " must be 0 or more bytes");
  if (exchange.prefetch_units < 0) {
    throw Error("prefetch_units = " + std::to_string(exchange.prefetch_units) +
                " must be 0 or more");
  }
  if (exchange.bucket > 0 && exchange.every_micro_batch && strategy.virtual_stages > 1) {
    throw Error("virtual_stages = " + std::to_string(strategy.virtual_stages) +
                " with gradients summed after every micro-batch needs bucket = 0, not " +
                std::to_string(exchange.bucket));
  }
}

// The two copies of the table lie differently in their units, so their shards are not of the same
// rows.
void require_table(const sim::Transformer& model, const sim::Strategy& strategy) {
  if (!model.tied_embeddings || strategy.pp == 1 || strategy.sharding == sim::Sharding::None)
    return;
  throw Error("tied_embeddings over pp = " + std::to_string(strategy.pp) +
              " needs sharding = none, not " + sim::name_of(strategy.sharding));
}

void require_whole_sequences(const sim::Transformer& model) {
  if (model.document_len)
    throw Error("the runtime does not execute document_len = " +
                std::to_string(*model.document_len) + "; a sequence is one document");
}

void require_executable(const sim::Strategy& strategy) {
  if (strategy.cp > 1)
    throw Error("the runtime does not execute cp = " + std::to_string(strategy.cp));
  if (strategy.mesh_order != sim::MeshOrder::PipelineLast)
    throw Error(std::string("the runtime does not execute mesh_order = ") +
                sim::name_of(strategy.mesh_order));
  if (strategy.virtual_stages > 1 &&
      strategy.pipeline_schedule == sim::PipelineSchedule::OneForwardOneBackward) {
    throw Error("schedule = 1f1b has one chunk a stage; virtual_stages = " +
                std::to_string(strategy.virtual_stages) + " needs schedule = interleaved or gpipe");
  }
  if (strategy.pipeline_schedule > sim::PipelineSchedule::Interleaved) {
    throw Error(std::string("the runtime does not execute pipeline_schedule = ") +
                sim::name_of(strategy.pipeline_schedule) +
                "; it executes gpipe, 1f1b and interleaved");
  }
  if (strategy.divides_experts() && strategy.sharding == sim::Sharding::Hsdp) {
    throw Error("the runtime does not execute ep = " + std::to_string(strategy.ep) + ", etp = " +
                std::to_string(strategy.expert_tensor_ranks()) + " with sharding = hsdp");
  }
  const sim::Recompute& recompute = strategy.recompute;
  if (recompute.kind == sim::RecomputeKind::Op ||
      (recompute.kind == sim::RecomputeKind::Full && recompute.every_n > 1))
    throw Error("the runtime does not execute recompute = " + sim::text_of(recompute));
  require_offload(strategy);
}

// Captured work cannot wait for other ranks' hosts, or for this one.
void require_graph(const sim::Strategy& strategy, c10::Device device) {
  if (!strategy.cuda_graph) return;
  if (!can_capture_graphs(device)) {
    throw Error(
        "cuda_graph = true needs a CUDA or ROCm device and a runtime built with its headers; the "
        "device is " +
        device.str());
  }
  if (strategy.num_devices() > 1)
    throw Error("cuda_graph = true captures the passes of one rank, not of " +
                std::to_string(strategy.num_devices()));
  if (strategy.offload.activations)
    throw Error("cuda_graph = true cannot capture offload.activations = true");
}

void require_low_precision_shapes(const sim::Transformer& model, const sim::Strategy& strategy) {
  const auto require = [&](const char* name, std::int64_t size) {
    if (size % kLowPrecisionMultiple == 0) return;
    throw Error(std::string("precision = fp8 needs ") + name + " in multiples of " +
                std::to_string(kLowPrecisionMultiple) + " on each rank, not " +
                std::to_string(size));
  };
  require("tokens of a micro-batch", std::int64_t{strategy.micro_batch} * model.seq_len);
  require("hidden_size", model.hidden_size);
  require("ffn_size", model.ffn_size / strategy.tp);
  require("num_heads * head_dim", std::int64_t{model.num_heads} * model.head_dim / strategy.tp);
  require("num_kv_heads * head_dim",
          std::int64_t{model.num_kv_heads} * model.head_dim / strategy.tp);
}

// What only some devices and libraries can do.
void require_device(const TrainingSetup& setup, c10::ScalarType type) {
  require_graph(setup.strategy, setup.device);
  if (setup.attention_kernels != AttentionKernels::Blockwise && !setup.strategy.flash_attention)
    throw Error(std::string("attention_kernels = ") + name_of(setup.attention_kernels) +
                " needs flash_attention = true");
  require_attention_kernels(setup.attention_kernels, setup.device, type);
  if (setup.model.mla && setup.attention_kernels != AttentionKernels::Blockwise)
    throw Error(std::string("attention_kernels = ") + name_of(setup.attention_kernels) +
                " takes heads of one size; MLA needs blockwise");
  if (setup.strategy.precision != sim::Precision::Fp8) return;
  require_low_precision_gemms(setup.device);
  if (setup.model.mla)
    throw Error(
        "precision = fp8 is for plain attention: the runtime's latents multiply in 16 or 32 bits");
  if (setup.model.moe)
    throw Error(
        "precision = fp8 is for dense blocks: the runtime's experts multiply in 16 or 32 bits");
  require_low_precision_shapes(setup.model, setup.strategy);
}

BlockContext block_context(const TrainingSetup& setup, const RankGroups& groups,
                           c10::ScalarType type) {
  const sim::Strategy& strategy = setup.strategy;
  const at::TensorOptions options = at::TensorOptions(type).device(setup.device);
  BlockContext context;
  context.model = setup.model;
  context.shape = rank_shape(setup.model, strategy,
                             {.tensor = groups.place(sim::GroupKind::Tensor),
                              .expert = groups.place(sim::GroupKind::Expert)});
  context.balanced_experts = setup.balanced_experts || setup.device.is_meta();
  if (Communicator* experts = groups.of(sim::GroupKind::Expert))
    context.experts = ExpertParallel(*experts);
  if (Communicator* tensor = groups.of(sim::GroupKind::Tensor)) {
    context.tensor = TensorParallel(*tensor, strategy.sequence_parallel);
  }
  context.blockwise_attention = strategy.flash_attention;
  context.attention_kernels = setup.attention_kernels;
  if (strategy.precision == sim::Precision::Fp8) context.gemms = GemmFormat::Fp8;
  const std::int64_t side = strategy.flash_attention
                                ? std::min(sim::kAttentionBlock, setup.model.seq_len)
                                : setup.model.seq_len;
  context.mask =
      causal_mask(side, setup.model.sliding_window.value_or(setup.model.seq_len), options);
  if (setup.model.position == sim::Position::Rope) {
    const std::int64_t dim = setup.model.mla ? context.shape.mla.rotary : setup.model.head_dim;
    context.rotary = rotary_table(setup.model.seq_len, dim, options);
  }
  return context;
}

LossPlan loss_plan(const TrainingSetup& setup) {
  const sim::Strategy& strategy = setup.strategy;
  const std::int64_t tokens = static_cast<std::int64_t>(strategy.micro_batch) * setup.model.seq_len;
  return {.tokens_of_step = static_cast<double>(strategy.global_batch) * setup.model.seq_len,
          .chunks = strategy.fused_cross_entropy
                        ? sim::loss_chunks(setup.model, sim::Framework{}, tokens)
                        : 0};
}

// The residual stream of a micro-batch on this rank.
Message stage_message(const BlockContext& context, const at::TensorOptions& options) {
  const std::int64_t ranks = context.tensor.divides_tokens() ? context.tensor.size() : 1;
  return {.sizes = {context.shape.tokens() / ranks, context.shape.hidden}, .options = options};
}

double clip_scale(const AdamWOptions& options, double norm) {
  return options.clip_norm > 0.0 && norm > options.clip_norm ? options.clip_norm / norm : 1.0;
}

}  // namespace

Trainer::Trainer(const TrainingSetup& setup, const RankGroups& groups)
    : setup_(setup),
      groups_(groups),
      stream_(setup.model.vocab_size, setup.model.seq_len, setup.seed),
      gradients_(groups, setup.strategy) {
  require_whole_sequences(setup.model);
  require_executable(setup.strategy);
  require_collectives(setup.exchange, setup.strategy);
  require_table(setup.model, setup.strategy);
  const NumberFormats formats = number_formats(setup.strategy.precision, setup.autocast);
  require_device(setup, formats.compute);
  context_ = block_context(setup, groups, formats.compute);
  data_ = data_parallel_form(setup.strategy, formats, setup.exchange, groups);
  make_chunks();
  for (ParameterUnit* unit : units_) {
    set_initial_weights(*unit, context_, setup.seed, setup.device);
    data_->adopt(*unit);
  }
  data_->complete();
  std::vector<ModelChunk*> chunks;
  for (const auto& chunk : chunks_) chunks.push_back(chunk.get());
  pipeline_ = std::make_unique<Pipeline>(
      sim::pipeline_shape(setup.strategy), groups, std::move(chunks),
      stage_message(context_, at::TensorOptions(formats.compute).device(setup.device)));
}

// Chunk c of stage s is part c * stages + s of the model.
void Trainer::make_chunks() {
  const int stages = setup_.strategy.pp, stage = groups_.place(sim::GroupKind::Pipeline);
  int part = 0, first_block = 0;
  wanted_ = {.ids = false, .targets = false};
  for (const sim::ModelChunk& parts : sim::model_chunks(setup_.model, setup_.strategy)) {
    if (part++ % stages == stage) {
      chunks_.push_back(std::make_unique<ModelChunk>(context_, setup_.strategy, parts, first_block,
                                                     loss_plan(setup_), *data_));
      for (ParameterUnit* unit : chunks_.back()->units()) units_.push_back(unit);
      wanted_ = {.ids = wanted_.ids || parts.embedding, .targets = wanted_.targets || parts.head};
    }
    first_block += parts.blocks;
  }
}

// Sequences of a step are dealt to the data ranks micro-batch by micro-batch.
std::vector<MicroBatch> Trainer::next_batches() {
  const sim::Strategy& strategy = setup_.strategy;
  const std::int64_t micro = strategy.micro_batch, rank = groups_.place(sim::GroupKind::Data);
  std::vector<MicroBatch> batches;
  for (int i = 0; i < strategy.num_microbatches(); ++i) {
    const std::int64_t first = steps_ * strategy.global_batch + (i * strategy.dp + rank) * micro;
    batches.push_back(stream_.sequences(first, micro, setup_.device, wanted_));
  }
  return batches;
}

PipelineResult Trainer::passes(const std::vector<MicroBatch>& batches, const PassDone& pass_done) {
  if (!setup_.strategy.cuda_graph) return pipeline_->run(batches, pass_done);
  if (graph_) return graph_->replay(batches);
  graph_ = std::make_unique<CapturedPasses>(
      [this](const auto& captured) { return pipeline_->run(captured); }, batches);
  return graph_->first();
}

StepResult Trainer::step(const std::vector<MicroBatch>& batches, const StepObserver& observer) {
  enum Lap { kForward, kBackward, kRest, kUpdate };
  const auto start = Clock::now();
  Stopwatch watch(setup_.device);
  PipelineResult passes = this->passes(batches, [&](bool backward) {
    watch.lap(backward ? kBackward : kForward);
    if (observer.pass_done) observer.pass_done(backward);
  });
  data_->finish_gradients();
  watch.lap(kRest);
  StepResult result;
  result.bytes_after_forward = passes.bytes_after_forward;
  gradients_.sum(data_->gradient_slices());
  if (observer.gradients_summed) observer.gradients_summed(data_->gradient_slices());
  result.gradient_norm = gradients_.norm(data_->gradient_slices(), data_->slice_group());
  data_->update(++steps_, setup_.optimizer, clip_scale(setup_.optimizer, result.gradient_norm));
  if (!passes.loss.is_meta()) result.loss = passes.loss.item<double>();
  watch.lap(kUpdate);
  const Stopwatch::Laps laps = watch.read();
  result.forward = laps[kForward], result.backward = laps[kBackward];
  result.optimizer = laps[kUpdate].value_or(sim::Seconds(0.0));
  result.total = since(start);
  return result;
}

}  // namespace llmsim::runtime
