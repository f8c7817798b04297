#include "hwdb/frameworks/framework_fields.h"

#include <map>
#include <vector>

#include "hwdb/text/spelling.h"
#include "sim/base/error.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

constexpr std::string_view kDefault = "default.";

// Of what a strategy does not hold.
const std::vector<sim::Field<FrameworkDefaults>>& default_fields() {
  static const std::vector<sim::Field<FrameworkDefaults>> all = {
      LLMSIM_FIELD(FrameworkDefaults, optimizer_step),
      LLMSIM_FIELD(FrameworkDefaults, collective_algorithm),
      LLMSIM_FIELD(FrameworkDefaults, bias),
      LLMSIM_FIELD(FrameworkDefaults, auto_buckets),
      LLMSIM_FIELD(FrameworkDefaults, zero2_shards_weights),
  };
  return all;
}

bool has_default(const sim::StrategyField& field) {
  return field.of_framework || field.key == "sharding";
}

// Keys of older programs, for the coefficients in users' databases; those are numbers.
std::string current_key(const std::string& key) {
  static const std::map<std::string, std::string> old_keys = {
      {"low_precision_copies", "low_precision.copies"},
      {"row_cast_rate", "low_precision.row_cast_rate"},
      {"low_precision_gemm_efficiency", "low_precision.gemm_efficiency"},
      {"fp32_logit_copies", "loss.fp32_logit_copies"},
      {"gradient_copies", "gradients.copies"},
      {"reduce_bucket_parameters", "gradients.bucket"},
      {"reduce_bucket_parameters_per_rank", "gradients.bucket_per_rank"},
      {"gathered_blocks", "sharded.gathered_blocks"},
      {"gradient_blocks", "sharded.gradient_blocks"},
      {"live_parameters", "sharded.live_parameters"},
      {"unit_blocks", "sharded.unit_blocks"},
      {"weight_copies", "sharded.weight_copies"},
      {"parts_per_block", "saved.parts_per_block"},
      {"adapter_dropout", "saved.adapter_dropout"},
      {"update_temporary_bytes", "update.temporary_bytes"},
      {"deterministic_attention_backward", "determinism.attention_backward"},
      {"host_time_per_kernel_s", "host.per_kernel"},
      {"host_time_per_recomputed_block_s", "host.per_recomputed_block"},
      {"host_time_per_low_precision_gemm_s", "host.per_low_precision_gemm"},
      {"host_time_per_unit_s", "host.per_unit"},
      {"host_time_per_step_s", "host.per_step"},
      {"offload.checkpoint_down_bytes_per_s", "host_copies.checkpoints_down"},
      {"offload.checkpoint_up_bytes_per_s", "host_copies.checkpoints_up"},
      {"offload.last_gradient_bytes", "host_copies.last_gradient_bytes"},
      {"offload.gradient_cast_s", "host_copies.gradient_cast"},
      {"offload.update_slowdown", "host_copies.update_slowdown"},
      {"framework_memory_bytes", "reserve.framework"},
      {"matmul_workspace_bytes", "reserve.matmul_workspace"},
      {"fragmentation", "reserve.fragmentation"},
      {"unrecoverable_gaps", "reserve.unrecoverable_gaps"}};
  const auto found = old_keys.find(key);
  return found == old_keys.end() ? key : found->second;
}

std::vector<std::string> field_keys() {
  std::vector<std::string> keys;
  for (const auto& field : sim::framework_fields()) keys.push_back(field.key);
  for (const auto& field : default_fields()) keys.push_back(std::string(kDefault) + field.key);
  for (const auto& field : sim::strategy_fields()) {
    if (has_default(field)) keys.push_back(std::string(kDefault) + field.key);
  }
  return keys;
}

// Whether a field of this key exists; `put` tells whether it took the value.
template <class Fields, class Record>
bool found(const Fields& fields, Record& record, const std::string& key,
           const std::optional<sim::FieldValue>& value, bool& put) {
  const auto* const field = sim::find_field(fields, key);
  put = field && value && put_field(*field, record, *value);
  return field != nullptr;
}

}  // namespace

void set_field(FrameworkChoice& choice, const std::string& key, const json& value,
               const std::string& place) {
  const std::optional<sim::FieldValue> plain = field_value_of(value);
  bool put = false, known = false;
  if (key.starts_with(kDefault)) {
    const std::string name = key.substr(kDefault.size());
    const sim::StrategyField* const field = sim::find_strategy_field(name);
    known = (field && has_default(*field) &&
             found(sim::strategy_fields(), choice.defaults.strategy, name, plain, put)) ||
            found(default_fields(), choice.defaults, name, plain, put);
  } else {
    known = found(sim::framework_fields(), choice.framework, current_key(key), plain, put);
  }
  if (!known) throw Error(place + ": " + key + ": unknown field" + did_you_mean(key, field_keys()));
  if (!put)
    throw Error(place + ": " + key + " = " + shown(value) + ": wrong type or range for this field");
}

void state_field(FrameworkChoice& choice, const std::string& key, const json& value) {
  set_field(choice, key, value, "framework " + choice.framework.id);
  const std::string name = "framework." + choice.framework.id + "." + key;
  std::erase_if(choice.facts, [&](const sim::Fact& fact) { return fact.key == name; });
  choice.facts.push_back({name, value.dump(), sim::Evidence::Given, "stated by the run"});
}

}  // namespace llmsim::hwdb
