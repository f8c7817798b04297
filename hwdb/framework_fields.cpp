#include "hwdb/framework_fields.h"

#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "hwdb/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Each assign() puts a value where it belongs and is false where the value has the wrong type or range.

template <class Amount>
bool assign_amount(Amount& target, const json& value) {
  if (!value.is_number() || value.get<double>() < 0.0) return false;
  target = Amount(value.get<double>());
  return true;
}

bool assign(double& target, const json& value) { return assign_amount(target, value); }
bool assign(sim::Seconds& target, const json& value) { return assign_amount(target, value); }
bool assign(sim::Bytes& target, const json& value) { return assign_amount(target, value); }
bool assign(sim::BytesPerSecond& target, const json& value) { return value != 0 && assign_amount(target, value); }

bool assign(bool& target, const json& value) {
  if (!value.is_boolean()) return false;
  target = value.get<bool>();
  return true;
}

template <class Value>
bool assign(std::optional<Value>& target, const json& value) {
  Value given{};
  if (!assign(given, value)) return false;
  target = given;
  return true;
}

// The text of a value; empty, which is no name, where it is none.
std::string word(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

template <class Named>
bool assign_named(Named& target, const std::optional<Named>& named) {
  if (named) target = *named;
  return named.has_value();
}

template <class Named, std::size_t n>
std::optional<Named> value_in(const std::array<std::pair<const char*, Named>, n>& names, const std::string& name) {
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  return std::nullopt;
}

using sim::ElementwiseFusion;
using sim::FusedLoss;
using sim::LowPrecisionScaling;

constexpr std::array<std::pair<const char*, ElementwiseFusion>, 3> kFusions = {{
    {"eager", ElementwiseFusion::Eager},
    {"compiled", ElementwiseFusion::Compiled},
    {"fused", ElementwiseFusion::Fused},
}};
constexpr std::array<std::pair<const char*, LowPrecisionScaling>, 7> kScalings = {{
    {"delayed", LowPrecisionScaling::Delayed},
    {"current", LowPrecisionScaling::Current},
    {"rowwise", LowPrecisionScaling::Rowwise},
    {"rowwise-wide-gradient", LowPrecisionScaling::RowwiseHighPrecisionGradient},
    {"blockwise", LowPrecisionScaling::Blockwise},
    {"mxfp8", LowPrecisionScaling::Mxfp8},
    {"nvfp4", LowPrecisionScaling::Nvfp4},
}};
constexpr std::array<std::pair<const char*, FusedLoss>, 4> kFusedLosses = {{
    {"kernel", FusedLoss::Kernel},
    {"logits", FusedLoss::Logits},
    {"recomputed", FusedLoss::Recomputed},
    {"gradient", FusedLoss::Gradient},
}};

bool assign(ElementwiseFusion& t, const json& value) { return assign_named(t, value_in(kFusions, word(value))); }
bool assign(LowPrecisionScaling& t, const json& value) { return assign_named(t, value_in(kScalings, word(value))); }
bool assign(FusedLoss& t, const json& value) { return assign_named(t, value_in(kFusedLosses, word(value))); }
bool assign(sim::AttentionKernel& t, const json& value) { return assign_named(t, sim::attention_kernel_named(word(value))); }
bool assign(sim::Sharding& t, const json& value) { return assign_named(t, sim::sharding_named(word(value))); }
bool assign(sim::CollectiveAlgorithm& t, const json& value) { return assign_named(t, sim::algorithm_named(word(value))); }
bool assign(sim::ContextScheme& t, const json& value) { return assign_named(t, sim::context_scheme_named(word(value))); }

struct Field {
  const char* key;
  std::function<bool(FrameworkChoice&, const json&)> set;
};

// Fields of one part of a choice.
template <class Part>
class Group {
 public:
  Group(std::vector<Field>& fields, Part& (*part)(FrameworkChoice&)) : fields_(fields), part_(part) {}

  template <class Value>
  void add(const char* key, Value Part::*member) const {
    fields_.push_back(
        {key, [part = part_, member](FrameworkChoice& c, const json& value) { return assign(part(c).*member, value); }});
  }

  // A whole number from `least` to `most`.
  void add(const char* key, int Part::*member, std::uint64_t least, std::uint64_t most) const {
    fields_.push_back({key, [part = part_, member, least, most](FrameworkChoice& c, const json& value) {
                         if (!value.is_number_unsigned()) return false;
                         if (value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) return false;
                         part(c).*member = value.get<int>();
                         return true;
                       }});
  }

 private:
  std::vector<Field>& fields_;
  Part& (*part_)(FrameworkChoice&);
};

void add_framework(std::vector<Field>& fields) {
  using P = sim::Framework;
  const Group<P> framework(fields, [](FrameworkChoice& c) -> P& { return c.framework; });
  framework.add("fusion", &P::fusion);
  framework.add("attention_kernel", &P::attention_kernel);
  framework.add("casts_weights_per_microbatch", &P::casts_weights_per_microbatch);
  framework.add("casts_weights_in_backward", &P::casts_weights_in_backward);
  framework.add("positions_apart", &P::positions_apart);
  framework.add("composed_activation", &P::composed_activation);
  framework.add("autograd", &P::autograd);
  framework.add("norms_in_fp32", &P::norms_in_fp32);
  framework.add("dropout", &P::dropout);
  framework.add("fuses_parallel_inputs", &P::fuses_parallel_inputs);
  framework.add("recompute_stops_early", &P::recompute_stops_early);
  framework.add("hides_column_gradients", &P::hides_column_gradients);
  framework.add("divides_sent_activations", &P::divides_sent_activations);
  framework.add("divides_sent_gradients", &P::divides_sent_gradients);
  framework.add("host_load_bytes", &P::host_load_bytes);
  framework.add("efficiency", &P::efficiency);
  framework.add("gemm_efficiency", &P::gemm_efficiency);
  framework.add("collective_efficiency", &P::collective_efficiency);
  framework.add("vocab_multiple", &P::vocab_multiple, 1, 65536);
  framework.add("spread_faster", &P::spread_faster);
  framework.add("spread_slower", &P::spread_slower);
}

void add_storage(std::vector<Field>& fields) {
  using P = sim::ParameterStorage;
  const Group<P> storage(fields, [](FrameworkChoice& c) -> P& { return c.framework.storage; });
  storage.add("storage.weight_bytes", &P::weight_bytes);
  storage.add("storage.gradient_bytes", &P::gradient_bytes);
  storage.add("storage.main_gradient_bytes", &P::main_gradient_bytes);
  storage.add("storage.master_bytes", &P::master_bytes);
  storage.add("storage.state_bytes", &P::state_bytes);
}

void add_low_precision(std::vector<Field>& fields) {
  using P = sim::LowPrecisionRecipe;
  const Group<P> low_precision(fields, [](FrameworkChoice& c) -> P& { return c.framework.low_precision; });
  low_precision.add("low_precision_scaling", &P::scaling);
  low_precision.add("low_precision_copies", &P::copies);
  low_precision.add("caches_low_precision_weights", &P::caches_weights);
  low_precision.add("stores_low_precision_weights", &P::stores_weights);
  low_precision.add("high_precision_first_blocks", &P::high_precision_first, 0, 4096);
  low_precision.add("high_precision_last_blocks", &P::high_precision_last, 0, 4096);
  low_precision.add("low_precision_head", &P::head);
  low_precision.add("saves_low_precision_inputs", &P::saves_inputs);
  low_precision.add("low_precision_gather", &P::gathers);
  low_precision.add("low_precision_input_gather", &P::gathers_inputs);
  low_precision.add("row_cast_rate", &P::row_cast_rate);
  low_precision.add("low_precision_gemm_efficiency", &P::gemm_efficiency);
}

void add_loss(std::vector<Field>& fields) {
  using P = sim::LossHabits;
  const Group<P> loss(fields, [](FrameworkChoice& c) -> P& { return c.framework.loss; });
  loss.add("fp32_logits", &P::fp32_logits);
  loss.add("logit_gradient_in_place", &P::gradient_in_place);
  loss.add("fp32_logit_copies", &P::fp32_logit_copies);
  loss.add("fused_loss", &P::fused);
  loss.add("loss_scales_gradients", &P::scales_gradients);
  loss.add("loss_chunks", &P::chunks, 0, 65536);
}

void add_gradients(std::vector<Field>& fields) {
  using P = sim::GradientHabits;
  const Group<P> gradients(fields, [](FrameworkChoice& c) -> P& { return c.framework.gradients; });
  gradients.add("gradient_reduce_in_fp32", &P::reduced_in_fp32);
  gradients.add("reduces_every_microbatch", &P::reduced_every_microbatch);
  gradients.add("gradient_accumulation_in_backward", &P::accumulated_by_gemm);
  gradients.add("fused_bias_gradients", &P::fused_bias);
  gradients.add("gradient_copies", &P::copies);
  gradients.add("reduce_bucket_parameters", &P::bucket);
  gradients.add("reduce_bucket_parameters_per_rank", &P::bucket_per_rank);
  gradients.add("copies_into_buckets", &P::copied_into_buckets);
  gradients.add("gradients_scattered_alone", &P::scatters_alone);
  gradients.add("gradients_persist", &P::persist);
}

void add_sharded(std::vector<Field>& fields) {
  using P = sim::ShardedWeights;
  const Group<P> sharded(fields, [](FrameworkChoice& c) -> P& { return c.framework.sharded; });
  sharded.add("regathers_in_backward", &P::regathers_in_backward);
  sharded.add("gathered_blocks", &P::gathered_blocks);
  sharded.add("gradient_blocks", &P::gradient_blocks);
  sharded.add("live_parameters", &P::live_parameters);
  sharded.add("flat_units", &P::flat_units);
  sharded.add("unit_blocks", &P::unit_blocks);
  sharded.add("modules_are_units", &P::modules_are_units);
  sharded.add("prefetch_units", &P::prefetch_units, 0, 1000);
  sharded.add("root_stays_gathered", &P::root_stays_gathered);
  sharded.add("keeps_frozen_gathered", &P::keeps_frozen);
  sharded.add("weight_copies", &P::weight_copies);
}

void add_experts(std::vector<Field>& fields) {
  using P = sim::ExpertHabits;
  const Group<P> experts(fields, [](FrameworkChoice& c) -> P& { return c.framework.experts; });
  experts.add("experts_route_shards", &P::routes_shards);
  experts.add("experts_in_one_kernel", &P::grouped_kernel);
  experts.add("expert_rows_copied_to_pad", &P::copies_to_pad);
  experts.add("expert_biases_one_by_one", &P::biases_one_by_one);
  experts.add("moe_dispatch_low_precision", &P::dispatches_low_precision);
}

void add_kept(std::vector<Field>& fields) {
  using P = sim::KeptActivations;
  const Group<P> kept(fields, [](FrameworkChoice& c) -> P& { return c.framework.kept; });
  kept.add("keeps_stage_outputs", &P::stage_outputs);
  kept.add("partitions_checkpoints", &P::partitioned_checkpoints);
  kept.add("expands_kv_heads", &P::expanded_kv_heads);
  kept.add("keeps_fused_qkv", &P::fused_qkv);
  kept.add("keeps_frozen_inputs", &P::frozen_inputs);
  kept.add("flash_output_copied", &P::flash_output_copied);
  kept.add("weighted_in_experts", &P::weighted_in_experts);
  kept.add("parts_per_block", &P::parts_per_block);
  kept.add("adapter_dropout", &P::adapter_dropout);
}

void add_update(std::vector<Field>& fields) {
  using P = sim::UpdateHabits;
  const Group<P> update(fields, [](FrameworkChoice& c) -> P& { return c.framework.update; });
  update.add("fused_update", &P::fused);
  update.add("updates_unit_by_unit", &P::unit_by_unit);
  update.add("sums_gradient_norm", &P::sums_norm);
  update.add("optimizer_in_backward", &P::in_backward);
  update.add("update_temporary_bytes", &P::temporary_bytes);
}

void add_determinism(std::vector<Field>& fields) {
  using P = sim::Determinism;
  const Group<P> determinism(fields, [](FrameworkChoice& c) -> P& { return c.framework.determinism; });
  determinism.add("fills_new_tensors", &P::fills_new_tensors);
  determinism.add("deterministic_attention_backward", &P::attention_backward);
}

void add_host(std::vector<Field>& fields) {
  using P = sim::HostTimes;
  const Group<P> host(fields, [](FrameworkChoice& c) -> P& { return c.framework.host; });
  host.add("host_time_per_kernel_s", &P::per_kernel);
  host.add("host_time_per_recomputed_block_s", &P::per_recomputed_block);
  host.add("host_time_per_low_precision_gemm_s", &P::per_low_precision_gemm);
  host.add("host_time_per_unit_s", &P::per_unit);
  host.add("host_time_per_step_s", &P::per_step);
}

void add_host_copies(std::vector<Field>& fields) {
  using P = sim::HostCopies;
  const Group<P> host_copies(fields, [](FrameworkChoice& c) -> P& { return c.framework.host_copies; });
  host_copies.add("offload.checkpoint_down_bytes_per_s", &P::checkpoints_down);
  host_copies.add("offload.checkpoint_up_bytes_per_s", &P::checkpoints_up);
  host_copies.add("offload.gradients_return", &P::gradients_return);
  host_copies.add("offload.last_gradient_bytes", &P::last_gradient_bytes);
  host_copies.add("offload.gradient_cast_s", &P::gradient_cast);
  host_copies.add("offload.update_slowdown", &P::update_slowdown);
}

void add_reserve(std::vector<Field>& fields) {
  using P = sim::MemoryReserve;
  const Group<P> reserve(fields, [](FrameworkChoice& c) -> P& { return c.framework.reserve; });
  reserve.add("framework_memory_bytes", &P::framework);
  reserve.add("matmul_workspace_bytes", &P::matmul_workspace);
  reserve.add("transformer_engine", &P::transformer_engine);
  reserve.add("grouped_gemm_streams", &P::grouped_gemm_streams, 0, 64);
  reserve.add("fragmentation", &P::fragmentation);
  reserve.add("unrecoverable_gaps", &P::unrecoverable_gaps);
}

void add_defaults(std::vector<Field>& fields) {
  using P = FrameworkDefaults;
  const Group<P> defaults(fields, [](FrameworkChoice& c) -> P& { return c.defaults; });
  defaults.add("default.flash_attention", &P::flash_attention);
  defaults.add("default.sequence_parallel", &P::sequence_parallel);
  defaults.add("default.compile", &P::compile);
  defaults.add("default.fused_cross_entropy", &P::fused_cross_entropy);
  defaults.add("default.tp_overlap", &P::tensor_overlap);
  defaults.add("default.gradient_overlap", &P::gradient_overlap);
  defaults.add("default.gather_overlap", &P::gather_overlap);
  defaults.add("default.cuda_graph", &P::cuda_graph);
  defaults.add("default.sharding", &P::sharding);
  defaults.add("default.optimizer_step", &P::optimizer_step);
  defaults.add("default.collective_algorithm", &P::collective_algorithm);
  defaults.add("default.cp_scheme", &P::context_scheme);
  defaults.add("default.cp_balanced", &P::context_balanced);
  defaults.add("default.bias", &P::bias);
  defaults.add("default.auto_buckets", &P::auto_buckets);
}

std::vector<Field> all_fields() {
  std::vector<Field> fields;
  for (const auto add : {add_framework, add_storage, add_low_precision, add_loss, add_gradients, add_sharded, add_experts,
                         add_kept, add_update, add_determinism, add_host, add_host_copies, add_reserve, add_defaults})
    add(fields);
  return fields;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = all_fields();
  return all;
}

std::vector<std::string> field_keys() {
  std::vector<std::string> keys;
  for (const Field& field : fields()) keys.emplace_back(field.key);
  return keys;
}

const Field* find_field(const std::string& key) {
  for (const Field& field : fields()) {
    if (key == field.key) return &field;
  }
  return nullptr;
}

}  // namespace

void set_field(FrameworkChoice& choice, const std::string& key, const json& value, const std::string& place) {
  const Field* field = find_field(key);
  if (!field) throw Error(place + ": " + key + ": unknown field" + did_you_mean(key, field_keys()));
  if (!field->set(choice, value)) throw Error(place + ": " + key + " = " + shown(value) + ": wrong type or range for this field");
}

void state_field(FrameworkChoice& choice, const std::string& key, const json& value) {
  set_field(choice, key, value, "framework " + choice.framework.id);
  const std::string name = "framework." + choice.framework.id + "." + key;
  std::erase_if(choice.facts, [&](const sim::Fact& fact) { return fact.key == name; });
  choice.facts.push_back({name, value.dump(), sim::Evidence::Given, "stated by the run"});
}

}  // namespace llmsim::hwdb
