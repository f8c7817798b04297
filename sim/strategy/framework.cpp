#include "sim/strategy/framework.h"

#include <utility>

#include "sim/base/number_text.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

namespace {

constexpr auto kFusions = in_order<ElementwiseFusion>({"eager", "compiled", "fused"});

constexpr auto kFusedLosses = in_order<FusedLoss>({"kernel", "logits", "recomputed", "gradient"});

}  // namespace

NameTable<ElementwiseFusion> name_table(ElementwiseFusion) { return kFusions; }
NameTable<FusedLoss> name_table(FusedLoss) { return kFusedLosses; }

bool is_offered(const FrameworkOffers& offers, Sharding sharding, bool has_stages) {
  switch (sharding) {
    case Sharding::None: break;
    case Sharding::Zero1: return offers.zero1;
    case Sharding::Zero2: return offers.zero2 && (!has_stages || offers.zero2_in_pipelines);
    case Sharding::Zero3: return offers.zero3 && (!has_stages || offers.zero3_in_pipelines);
    case Sharding::Hsdp: return offers.hsdp && (!has_stages || offers.zero3_in_pipelines);
  }
  return true;
}

std::vector<std::string> beyond_offers(const Framework& framework, const Strategy& s) {
  const FrameworkOffers& offers = framework.offers;
  std::vector<std::string> lines;
  const auto add = [&](const std::string& stated, const char* what) {
    lines.push_back(stated + ": " + framework.id + " has no " + what + "; predicted as if it had");
  };
  if (s.tp > 1 && !offers.tensor_ranks) add(equals("tp", s.tp), "tensor ranks");
  if (s.sequence_parallel && offers.tensor_ranks && !offers.sequence_parallel)
    add("sequence_parallel = true", "sequence parallelism");
  if (s.cp > 1 && !offers.context_ranks) add(equals("cp", s.cp), "context ranks");
  if (s.pp > 1 && !offers.pipelines) add(equals("pp", s.pp), "pipelines");
  if (s.pp > 1 && s.pipeline_schedule == PipelineSchedule::Interleaved && !offers.interleaving)
    add(equals("virtual_stages", s.virtual_stages), "interleaved stages");
  if (s.dp * s.cp > 1 && !is_offered(offers, s.sharding, s.pp > 1))
    add("sharding = " + std::string(name_of(s.sharding)),
        is_offered(offers, s.sharding, false) ? "such sharding in pipelines" : "such sharding");
  return lines;
}

Framework effective_framework(const Framework& framework, const Strategy& strategy) {
  Framework effective = framework;
  if (strategy.compile && framework.fusion == ElementwiseFusion::Eager) {
    effective.fusion = ElementwiseFusion::Compiled;
    if (framework.loss.compiled) effective.loss.fp32_logits = false;
  }
  return effective;
}

bool gathers_units_once(const Framework& framework, const Strategy& strategy) {
  return strategy.sharding >= Sharding::Zero3 && strategy.pp > 1 &&
         framework.sharded.whole_in_pipelines;
}

bool gathers_every_pass(const Framework& framework, const Strategy& strategy) {
  return strategy.sharding >= Sharding::Zero3 && !gathers_units_once(framework, strategy);
}

bool reduces_every_microbatch(const Framework& framework, const Strategy& strategy) {
  return framework.gradients.reduced_every_microbatch.value_or(
      gathers_every_pass(framework, strategy));
}

bool runs_autocast(const Framework& framework, const Strategy& strategy) {
  const DType format = activation_dtype(strategy.precision);
  return framework.casts_weights_per_microbatch && framework.autograd &&
         framework.fusion == ElementwiseFusion::Eager && !strategy.compile &&
         !framework.reserve.transformer_engine && size_of(format) < size_of(DType::Fp32) &&
         matmul_dtype(strategy.precision) == format;
}

namespace {

// Of a ratio of step times, which is no more than a factor of e off.
Field<Framework> bias(Field<Framework> field) { return ranged(std::move(field), -1.0, 1.0); }

}  // namespace

#define FIELD(member) LLMSIM_FIELD(Framework, member)

const std::vector<Field<Framework>>& framework_fields() {
  static const std::vector<Field<Framework>> all = {
      FIELD(fusion), FIELD(attention_kernel), FIELD(casts_weights_per_microbatch),
      FIELD(casts_weights_in_backward), FIELD(separate_position_kernel), FIELD(composed_activation),
      FIELD(autograd), FIELD(softmax_in_fp32), FIELD(norms_in_fp32), FIELD(fused_rms_norm),
      FIELD(dropout), FIELD(fuses_parallel_inputs), FIELD(recompute_stops_early),
      FIELD(hides_column_gradients), FIELD(divides_sent_activations), FIELD(divides_sent_gradients),
      FIELD(blocking_transfers), FIELD(host_load_bytes), FIELD(efficiency), FIELD(gemm_efficiency),
      FIELD(misaligned_gemm_gain), FIELD(misaligned_gemm_rate), FIELD(misaligned_batch_rate),
      FIELD(collective_efficiency), ranged(FIELD(vocab_multiple), 1, 65536),
      // Accuracy.
      FIELD(errors.efficiency), FIELD(errors.site), FIELD(errors.moe_site), FIELD(errors.cell),
      FIELD(errors.run), FIELD(errors.collectives), FIELD(errors.hosts),
      FIELD(errors.between_steps), FIELD(errors.memory_bound), FIELD(errors.noise_runs),
      FIELD(errors.faster), FIELD(errors.slower), FIELD(errors.few_faster),
      FIELD(errors.few_slower), FIELD(errors.site_faster), FIELD(errors.site_slower),
      FIELD(errors.memory), FIELD(errors.needed_memory), bias(FIELD(ratios.tensor_ranks.bias)),
      FIELD(ratios.tensor_ranks.error), bias(FIELD(ratios.stages.bias)), FIELD(ratios.stages.error),
      bias(FIELD(ratios.context_ranks.bias)), FIELD(ratios.context_ranks.error),
      bias(FIELD(ratios.expert_ranks.bias)), FIELD(ratios.expert_ranks.error),
      bias(FIELD(ratios.sharded_parameters.bias)), FIELD(ratios.sharded_parameters.error),
      bias(FIELD(ratios.micro_batch.bias)), FIELD(ratios.micro_batch.error),
      bias(FIELD(ratios.recomputation.bias)), FIELD(ratios.recomputation.error),
      bias(FIELD(ratios.virtual_stages.bias)), FIELD(ratios.virtual_stages.error),
      FIELD(ratios.run),
      // Formats.
      FIELD(storage.weight_bytes), FIELD(storage.gradient_bytes),
      FIELD(storage.main_gradient_bytes), FIELD(storage.master_bytes), FIELD(storage.state_bytes),
      FIELD(low_precision.scaling), FIELD(low_precision.copies),
      FIELD(low_precision.caches_weights), FIELD(low_precision.stores_weights),
      ranged(FIELD(low_precision.high_precision_first), 0, 4096),
      ranged(FIELD(low_precision.high_precision_last), 0, 4096), FIELD(low_precision.head),
      FIELD(low_precision.saves_inputs), FIELD(low_precision.counted_by_policy),
      FIELD(low_precision.gathers), FIELD(low_precision.gathers_inputs),
      FIELD(low_precision.row_cast_rate), FIELD(low_precision.gemm_efficiency),
      // Loss and gradients.
      FIELD(loss.fp32_logits), FIELD(loss.gradient_in_place), FIELD(loss.parallel_logit_copies),
      FIELD(loss.compiled), FIELD(loss.fp32_logit_copies), FIELD(loss.fused),
      FIELD(loss.scales_gradients), ranged(FIELD(loss.chunks), 0, 65536),
      FIELD(gradients.reduced_in_fp32), FIELD(gradients.reduced_whole),
      FIELD(gradients.reduced_every_microbatch), FIELD(gradients.accumulated_by_gemm),
      FIELD(gradients.fused_bias), FIELD(gradients.copies), FIELD(gradients.bucket),
      FIELD(gradients.bucket_per_rank), FIELD(gradients.copied_into_buckets),
      FIELD(gradients.scatters_alone), FIELD(gradients.persist), FIELD(gradients.offloaded),
      // Sharded weights.
      FIELD(sharded.regathers_in_backward), FIELD(sharded.regathers_recomputed),
      FIELD(sharded.gathered_blocks), FIELD(sharded.gradient_blocks),
      FIELD(sharded.gradients_of_units), FIELD(sharded.live_parameters), FIELD(sharded.flat_units),
      FIELD(sharded.unit_blocks), FIELD(sharded.modules_are_units),
      ranged(FIELD(sharded.prefetch_units), 0, 1000), FIELD(sharded.root_stays_gathered),
      FIELD(sharded.whole_in_pipelines), FIELD(sharded.keeps_frozen), FIELD(sharded.weight_copies),
      FIELD(sharded.fetches_synchronise),
      // Experts and activations.
      FIELD(experts.routes_shards), FIELD(experts.load_spread), FIELD(experts.grouped_kernel),
      FIELD(experts.copies_to_pad), FIELD(experts.biases_one_by_one),
      FIELD(experts.dispatches_low_precision), ranged(FIELD(experts.dispatch_sms), 0, 1024),
      FIELD(experts.dispatch_sm_bandwidth), FIELD(saved.stage_outputs),
      FIELD(saved.partitioned_checkpoints), FIELD(saved.expanded_kv_heads), FIELD(saved.fused_qkv),
      FIELD(saved.frozen_inputs), FIELD(saved.flash_output_copied), FIELD(saved.gathered_inputs),
      FIELD(saved.weighted_in_experts), FIELD(saved.fp8_activation_inputs),
      FIELD(saved.parts_per_block), FIELD(saved.adapter_dropout),
      // What it offers.
      FIELD(offers.tensor_ranks), FIELD(offers.sequence_parallel), FIELD(offers.context_ranks),
      FIELD(offers.pipelines), FIELD(offers.interleaving), FIELD(offers.uneven_stages),
      FIELD(offers.zero1), FIELD(offers.zero2), FIELD(offers.zero3), FIELD(offers.hsdp),
      FIELD(offers.zero2_in_pipelines), FIELD(offers.zero3_in_pipelines),
      FIELD(offers.plain_recompute), FIELD(offers.module_recompute),
      FIELD(offers.activation_recompute), FIELD(offers.operator_recompute),
      FIELD(offers.recompute_in_graphs), FIELD(offers.shards_in_graphs), FIELD(offers.tp_overlap),
      FIELD(offers.tp_overlap_compiled), FIELD(offers.mesh_order),
      FIELD(offers.deduplicated_dispatch), FIELD(offers.moe_overlap), FIELD(offers.dualpipe),
      // The update.
      FIELD(update.fused), FIELD(update.tensor_by_tensor), FIELD(update.unit_by_unit),
      FIELD(update.sums_norm), FIELD(update.in_backward), FIELD(update.temporary_bytes),
      FIELD(update.kept_temporary_bytes), FIELD(update.temporary_values),
      FIELD(update.parameters_at_once), FIELD(update.muon_tp_mode), FIELD(update.symmetric_gemms),
      FIELD(update.gram_newton_schulz), FIELD(update.splits_gate), FIELD(update.whole_tables),
      FIELD(update.gathers_momentum), FIELD(determinism.fills_new_tensors),
      FIELD(determinism.attention_backward),
      // The host.
      FIELD(host.factor), FIELD(host.per_kernel), FIELD(host.per_recomputed_block),
      FIELD(host.per_moe_block), FIELD(host.per_low_precision_gemm), FIELD(host.per_unit),
      FIELD(host.per_slice), FIELD(host.per_gradient), FIELD(host.per_step),
      FIELD(host_copies.checkpoints_down), FIELD(host_copies.checkpoints_up),
      FIELD(host_copies.gradients_return), FIELD(host_copies.last_gradient_bytes),
      FIELD(host_copies.casts_gradients), FIELD(host_copies.gradient_cast),
      FIELD(host_copies.update_slowdown),
      // Memory.
      FIELD(reserve.framework), FIELD(reserve.matmul_workspace), FIELD(reserve.transformer_engine),
      FIELD(reserve.dummy_weight_gradients), ranged(FIELD(reserve.grouped_gemm_streams), 0, 64),
      FIELD(reserve.fragmentation), FIELD(reserve.gaps_factor), FIELD(reserve.unrecoverable_gaps),
      FIELD(reserve.captured_growth)};
  return all;
}

#undef FIELD

}  // namespace llmsim::sim
