#include "reports/json.h"

#include <cmath>
#include <variant>

#include "reports/step_parts.h"
#include "reports/strategy_text.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::reports {
namespace {

// A figure, or null where it is not finite.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// A byte count or a FLOP count: an integer where it is one.
Json amount(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::isfinite(value) && std::abs(value) < kExact && value == std::floor(value))
    return static_cast<std::int64_t>(value);
  return number(value);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json trained_model_json(const sim::Run& run) {
  Json json = transformer_json(run.model);
  if (const auto& adapters = run.strategy.adapters) {
    json["trainable"] = "lora";
    json["lora"] = {{"rank", adapters->rank}, {"targets", sim::names_of(adapters->layers)}};
  }
  return json;
}

Json hardware_json(const sim::Cluster& cluster) {
  const double per_device = cluster.network.node_bandwidth.value() / cluster.devices_per_node;
  return {
      {"accelerator", cluster.device.id},
      {"system", cluster.id == cluster.device.id ? Json(nullptr) : Json(cluster.id)},
      {"num_devices", cluster.num_devices},
      {"devices_per_node", cluster.devices_per_node},
      {"inter_node_bytes_per_s_per_device", per_device > 0.0 ? number(per_device) : Json(nullptr)},
      {"transport", sim::name_of(cluster.network.transport)},
      {"collective_algorithm", sim::name_of(cluster.algorithm)}};
}

// The fields of a strategy; a dot in a key stands for an object.
Json strategy_json(const sim::Strategy& s) {
  Json json = Json::object();
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const bool stated = sim::is_stated(field, s);
    if (!stated && field.written == sim::Written::OrNothing) continue;
    const std::optional<sim::FieldValue> value = field.get(s);
    sim::place_of(json, field.key) = stated && value ? field_json(*value) : Json(nullptr);
  }
  return json;
}

// What follows from a strategy.  No number of micro-batches where its numbers do not go together.
void add_derived(const sim::Strategy& s, Json& json) {
  const std::int64_t replica_batch = std::int64_t{s.dp} * s.micro_batch;
  const bool divides = replica_batch >= 1 && s.global_batch % replica_batch == 0;
  json["num_microbatches"] = divides ? Json(s.global_batch / replica_batch) : Json(nullptr);
  const bool shards = s.sharding != sim::Sharding::None && s.shard_size > 0;
  json["replicate_size"] = shards ? Json(s.dp * s.cp / s.shard_size) : Json(nullptr);
  json["dp_overlap"] =
      s.gradient_overlap == s.gather_overlap ? Json(s.gradient_overlap) : Json(nullptr);
}

// What the framework does that people ask about, and all settings that the run states.
void add_settings(const sim::Run& run, Json& json) {
  const sim::Strategy& s = run.strategy;
  const bool sharded =
      (s.sharding == sim::Sharding::Hsdp && s.shard_size > 0) || s.sharding == sim::Sharding::Zero3;
  const sim::ShardedWeights& weights = run.framework.sharded;
  json["attention_kernel"] =
      s.flash_attention ? Json(sim::name_of(run.framework.attention_kernel)) : Json(nullptr);
  json["grad_sync_every_microbatch"] = run.framework.gradients.reduced_every_microbatch;
  // Of a pipeline that gathers once it says nothing.
  json["reshard_after_forward"] = sharded && !sim::gathers_units_once(run.framework, s)
                                      ? Json(weights.regathers_in_backward)
                                      : Json(nullptr);
  json["fsdp_unit_blocks"] = sharded ? Json(weights.unit_blocks) : Json(nullptr);
  for (const auto& [key, value] : run.settings) json[key] = field_json(value);
}

Json training_json(const sim::Run& run) {
  Json json = {{"framework", run.framework.id},
               {"framework_version",
                run.framework_version.empty() ? Json(nullptr) : Json(run.framework_version)}};
  json.update(strategy_json(run.strategy));
  add_derived(run.strategy, json);
  add_settings(run, json);
  return json;
}

Json conventions_json(const sim::Prediction& p) {
  Json json = Json::object();
  for (const sim::Convention& convention : p.conventions) {
    json[convention.name] = {
        {"tflops_per_device", number(convention.flops_per_device / sim::TFLOPS)},
        {"mfu", number(convention.mfu)}};
  }
  return json;
}

Json terms_json(const std::vector<sim::MemoryTerm>& terms) {
  Json json = Json::object();
  for (const sim::MemoryTerm& term : terms) json[term.name] = amount(term.size.value());
  return json;
}

// Indices from 0.
Json peak_json(const sim::Prediction& p) {
  const sim::MemoryPeak& peak = p.memory_peak;
  return {{"stage", peak.stage},
          {"phase", peak.phase},
          {"micro_batch", or_null(peak.micro_batch)},
          {"layer", or_null(peak.layer)},
          {"passes_in_flight", peak.passes_in_flight},
          {"blocks_in_flight", peak.blocks_in_flight},
          {"parameters", amount(peak.parameters)},
          {"terms", terms_json(p.memory.fullest().terms)},
          {"gaps_bytes", amount(p.memory.margin.value())},
          {"context_bytes", amount(p.memory.context.value())},
          {"needed_bytes", amount(p.memory.needed().value())}};
}

Json memory_json(const sim::Memory& memory) {
  Json stages = Json::array(), timeline = Json::array();
  for (const sim::StageMemory& stage : memory.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"phase", stage.phase},
                      {"peak_bytes", amount(stage.peak.value())},
                      {"reserved_bytes", amount(stage.reserved.value())},
                      {"terms", terms_json(stage.terms)}});
  }
  for (const sim::MemoryPhase& phase : memory.timeline) {
    timeline.push_back({{"phase", phase.phase},
                        {"allocated_bytes", amount(phase.allocated.value())},
                        {"terms", terms_json(phase.terms)}});
  }
  return {{"peak_bytes", amount(memory.peak.value())},
          {"reserved_bytes", amount(memory.reserved.value())},
          {"device_bytes", amount(memory.device.value())},
          {"context_bytes", amount(memory.context.value())},
          {"capacity_bytes", amount(memory.capacity.value())},
          {"host_bytes", amount(memory.host.device.value())},
          {"host_node_bytes", amount(memory.host.node.value())},
          {"host_node_capacity_bytes", memory.host.capacity > sim::Bytes(0.0)
                                           ? amount(memory.host.capacity.value())
                                           : Json(nullptr)},
          {"margin_bytes", amount(memory.margin.value())},
          {"fit_probability", number(memory.fit_probability())},
          {"stages", stages},
          {"timeline", timeline}};
}

Json communication_json(const std::vector<sim::CommunicationTerm>& terms) {
  Json json = Json::array();
  for (const sim::CommunicationTerm& term : terms) {
    json.push_back({{"collective", term.collective},
                    {"group", term.group},
                    {"ranks", term.ranks},
                    {"bytes", amount(term.size.value())},
                    {"count", amount(term.count)},
                    {"time_s", number(term.time.value())},
                    {"exposed_s", number(term.exposed.value())}});
  }
  return json;
}

Json provenance_json(const sim::Run& run, const Provenance& provenance) {
  Json assumed = Json::array(), sources = Json::array();
  for (const sim::Fact& fact : assumptions_of(run)) {
    assumed.push_back({{"key", fact.key.substr(sizeof("assumed.") - 1)},
                       {"value", fact.value},
                       {"reason", fact.source}});
  }
  for (const std::string& source : sources_of(run)) sources.push_back(source);
  return {{"database", provenance.database},
          {"coefficients", coefficients_of(run)},
          {"assumed", assumed},
          {"sources", sources}};
}

// The figures of a run that was simulated.
void add_figures(const sim::Prediction& p, Json& json) {
  Json breakdown = Json::object();
  for (const sim::TimeTerm& term : p.breakdown) breakdown[term.name] = number(term.time.value());
  json["step_time_s"] = number(p.step_time.value());
  json["step_time_interval_s"] =
      Json::array({number(p.interval.first.value()), number(p.interval.second.value())});
  json["interval_level"] = p.interval_level;
  if (p.slow_step_time) json["slow_step_time_s"] = number(p.slow_step_time->value());
  json["tokens_per_s_per_device"] = number(p.tokens_per_second_per_device);
  json["tflops_per_device"] = number(p.flops_per_device / sim::TFLOPS);
  json["mfu"] = number(p.mfu);
  json["hfu"] = number(p.hfu);
  json["conventions"] = conventions_json(p);
  json["peak"] = {{"format", sim::name_of(sim::matmul_dtype(p.run.strategy.precision))},
                  {"tflops_per_device", number(p.peak / sim::TFLOPS)}};
  json["breakdown_s"] = breakdown;
  json["parts_s"] = Json::object();
  for (const StepPart& part : step_parts(p)) json["parts_s"][part.name] = number(part.time.value());
  json["bubble"] = number(p.bubble);
  json["memory"] = memory_json(p.memory);
  json["memory"]["peak"] = peak_json(p);
  const auto [least, most] = p.memory.interval(p.memory.peak, p.interval_level);
  json["memory"]["peak_interval_bytes"] =
      Json::array({amount(least.value()), amount(most.value())});
  json["communication"] = communication_json(p.communication);
  json["flops"] = {{"model", amount(p.model_flops.value())},
                   {"hardware", amount(p.hardware_flops.value())}};
}

void add_nulls(Json& json) {
  for (const char* key :
       {"step_time_s", "step_time_interval_s", "interval_level", "tokens_per_s_per_device",
        "tflops_per_device", "mfu", "hfu", "conventions", "peak", "breakdown_s", "parts_s",
        "bubble", "memory", "communication", "flops"}) {
    json[key] = nullptr;
  }
}

}  // namespace

Json field_json(const sim::FieldValue& value) {
  return std::visit([](const auto& stated) { return Json(stated); }, value);
}

namespace {

const char* architecture_of(const sim::Transformer& model) {
  if (model.encoder) return "encoder";
  return sim::is_hybrid(model) ? "hybrid" : "decoder";
}

}  // namespace

Json transformer_json(const sim::Transformer& model) {
  Json json = {{"name", model.name}, {"architecture", architecture_of(model)}};
  for (const sim::TransformerField& field : sim::transformer_fields()) {
    if (field.rare && field.get(model) == field.get(sim::Transformer{})) continue;
    if (field.present && !field.present(model)) {
      json[field.key.substr(0, field.key.find('.'))] = nullptr;
      continue;
    }
    const std::optional<sim::FieldValue> value = field.get(model);
    sim::place_of(json, field.key) = value ? field_json(*value) : Json(nullptr);
  }
  if (model.mtp_layers == 0) json["mtp_layers"] = nullptr;
  json["num_parameters"] = sim::parameters(model).total();
  json["trainable"] = "all";
  return json;
}

Json run_json(const sim::Run& run) {
  return {{"schema", 2},
          {"id", run.id},
          {"group", run.group},
          {"date", run.date.empty() ? Json(nullptr) : Json(run.date)},
          {"model", trained_model_json(run)},
          {"hardware", hardware_json(run.cluster)},
          {"training", training_json(run)}};
}

Json run_json(const sim::Prediction& p) {
  sim::Run asked = p.run;
  if (p.unpadded_vocab_size > 0) asked.model.vocab_size = p.unpadded_vocab_size;
  return run_json(asked);
}

Json prediction_json(const sim::Prediction& p, const Provenance& provenance) {
  Json json{{"run", run_json(p)},
            {"feasible", p.feasible()},
            {"strategy", strategy_text(p.run.strategy)}};
  if (p.infeasible)
    json["infeasible"] = {{"rule", p.infeasible->rule}, {"message", p.infeasible->message}};
  if (p.step_time > sim::Seconds(0.0))
    add_figures(p, json);
  else
    add_nulls(json);
  json["parameters"] = {{"total", p.parameters.total()}, {"active", p.parameters.active()}};
  json["warnings"] = p.warnings;
  json["provenance"] = provenance_json(p.run, provenance);
  return json;
}

Json reported_json(const sim::Prediction& p, const Reported& reported) {
  const std::vector<sim::Reading> rows = readings(p, reported);
  Json json = Json::object(), list = Json::object();
  for (const sim::Reading& row : rows) {
    list[row.convention] = {{"step_time_s", row.step_time.value()},
                            {"tflops_per_device", row.exact / sim::TFLOPS},
                            {"mfu", row.exact_mfu}};
  }
  json["tflops_per_device"] = reported_rate(p, reported) / sim::TFLOPS;
  json["mfu"] = reported_rate(p, reported) / p.peak;
  json["convention"] = rows.size() == 1 ? Json(rows.front().convention) : Json(nullptr);
  json["measured_step_time_s"] =
      reported.step_time ? Json(reported.step_time->value()) : Json(nullptr);
  json["exact"] = list;
  return json;
}

Json switches_json(std::span<const sim::SwitchWorth> switches) {
  Json json = Json::array();
  for (const sim::SwitchWorth& worth : switches)
    json.push_back({{"key", worth.key}, {"on", worth.on}, {"other_way", worth.other_way}});
  return json;
}

Json curve_json(const sim::MemoryCurve& curve) {
  Json points = Json::array();
  for (const sim::MemoryPoint& point : curve.points) {
    points.push_back({{"phase", point.phase},
                      {"micro_batch", or_null(point.micro_batch)},
                      {"layer", or_null(point.layer)},
                      {"allocated_bytes", amount(point.allocated.value())},
                      {"reserved_bytes", amount(curve.reserved(point).value())},
                      {"terms", terms_json(point.terms.present())}});
  }
  return {{"stage", curve.stage}, {"highest", curve.highest}, {"points", points}};
}

std::string run_text(const sim::Prediction& prediction) { return text_of(run_json(prediction)); }

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmsim::reports
