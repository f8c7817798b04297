#include "reports/json.h"

#include <cmath>
#include <variant>

#include "reports/result_text.h"
#include "reports/step_detail.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::reports {
namespace {

// A byte count or a FLOP count: an integer where it is one.
template <class Amount>
Json amount(Amount of) {
  const double value = of / Amount(1.0);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::isfinite(value) && std::abs(value) < kExact && value == std::floor(value))
    return static_cast<std::int64_t>(value);
  return value_json(value);
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
  return {{"accelerator", cluster.device.id},
          {"system", or_null(cluster.id != cluster.device.id, cluster.id)},
          {"num_devices", cluster.num_devices},
          {"devices_per_node", cluster.devices_per_node},
          {"inter_node_bytes_per_s_per_device", or_null(per_device > 0.0, per_device)},
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
  json["dp_overlap"] = or_null(s.gradient_overlap == s.gather_overlap, s.gradient_overlap);
}

// What the framework does that people ask about, and all settings that the run states.
void add_settings(const sim::Run& run, Json& json) {
  const sim::Strategy& s = run.strategy;
  const bool sharded =
      (s.sharding == sim::Sharding::Hsdp && s.shard_size > 0) || s.sharding == sim::Sharding::Zero3;
  const sim::ShardedWeights& weights = run.framework.sharded;
  json["attention_kernel"] =
      or_null(s.flash_attention, sim::name_of(run.framework.attention_kernel));
  json["grad_sync_every_microbatch"] = sim::reduces_every_microbatch(run.framework, run.strategy);
  // Of a pipeline that gathers once it says nothing.
  json["reshard_after_forward"] =
      or_null(sharded && !sim::gathers_units_once(run.framework, s), weights.regathers_in_backward);
  json["fsdp_unit_blocks"] = or_null(sharded, weights.unit_blocks);
  for (const auto& [key, value] : run.settings) json[key] = field_json(value);
}

Json training_json(const sim::Run& run) {
  Json json = {
      {"framework", run.framework.id},
      {"framework_version", or_null(!run.framework_version.empty(), run.framework_version)}};
  json.update(strategy_json(run.strategy));
  add_derived(run.strategy, json);
  add_settings(run, json);
  return json;
}

Json conventions_json(const sim::Prediction& p) {
  Json json = Json::object();
  for (const sim::Convention& convention : p.conventions) {
    json[convention.name] = {
        {"tflops_per_device", value_json(convention.flops_per_device / sim::TFLOPS)},
        {"mfu", value_json(convention.mfu)}};
  }
  return json;
}

Json terms_json(const std::vector<sim::MemoryTerm>& terms) {
  Json json = Json::object();
  for (const sim::MemoryTerm& term : terms) json[term.name] = amount(term.size);
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
          {"gaps_bytes", amount(p.memory.margin)},
          {"context_bytes", amount(p.memory.context)},
          {"needed_bytes", amount(p.memory.needed())}};
}

Json stage_json(const sim::StageMemory& stage) {
  return {{"stage", stage.stage},
          {"phase", stage.phase},
          {"peak_bytes", amount(stage.peak)},
          {"reserved_bytes", amount(stage.reserved)},
          {"terms", terms_json(stage.terms)}};
}

Json phase_json(const sim::MemoryPhase& phase) {
  return {{"phase", phase.phase},
          {"allocated_bytes", amount(phase.allocated)},
          {"terms", terms_json(phase.terms)}};
}

Json memory_json(const sim::Memory& memory) {
  return {{"peak_bytes", amount(memory.peak)},
          {"reserved_bytes", amount(memory.reserved)},
          {"device_bytes", amount(memory.device)},
          {"context_bytes", amount(memory.context)},
          {"capacity_bytes", amount(memory.capacity)},
          {"host_bytes", amount(memory.host.device)},
          {"host_node_bytes", amount(memory.host.node)},
          {"host_node_capacity_bytes",
           memory.host.capacity > sim::Bytes(0.0) ? amount(memory.host.capacity) : Json()},
          {"margin_bytes", amount(memory.margin)},
          {"fit_probability", value_json(memory.fit_probability())},
          {"stages", list_json(memory.stages, stage_json)},
          {"timeline", list_json(memory.timeline, phase_json)}};
}

Json communication_json(const sim::CommunicationTerm& term) {
  return {{"collective", term.collective},
          {"group", term.group},
          {"ranks", term.ranks},
          {"bytes", amount(term.size)},
          {"count", amount(term.count)},
          {"time_s", value_json(term.time)},
          {"exposed_s", value_json(term.exposed)}};
}

Json provenance_json(const sim::Run& run, const Provenance& provenance) {
  const auto assumed = [](const sim::Fact& fact) {
    return Json{{"key", fact.key.substr(sizeof("assumed.") - 1)},
                {"value", fact.value},
                {"reason", fact.source}};
  };
  return {{"database", provenance.database},
          {"coefficients", coefficients_of(run)},
          {"assumed", list_json(assumptions_of(run), assumed)},
          {"sources", sources_of(run)}};
}

// The figures of a run that was simulated.
void add_figures(const sim::Prediction& p, Json& json) {
  Json breakdown = Json::object();
  for (const sim::TimeTerm& term : p.breakdown) breakdown[term.name] = value_json(term.time);
  json["step_time_s"] = value_json(p.step_time);
  json["step_time_interval_s"] =
      Json::array({value_json(p.interval.first), value_json(p.interval.second)});
  json["interval_level"] = p.interval_level;
  if (p.slow_step_time) json["slow_step_time_s"] = value_json(*p.slow_step_time);
  json["tokens_per_s_per_device"] = value_json(p.tokens_per_second_per_device);
  json["tflops_per_device"] = value_json(p.flops_per_device / sim::TFLOPS);
  json["mfu"] = value_json(p.mfu);
  json["hfu"] = value_json(p.hfu);
  json["conventions"] = conventions_json(p);
  json["peak"] = {{"format", sim::name_of(sim::matmul_dtype(p.run.strategy.precision))},
                  {"tflops_per_device", value_json(p.peak / sim::TFLOPS)}};
  json["breakdown_s"] = breakdown;
  json["parts_s"] = Json::object();
  for (const StepPart& part : step_parts(p)) json["parts_s"][part.name] = value_json(part.time);
  json["bubble"] = value_json(p.bubble);
  json["memory"] = memory_json(p.memory);
  json["memory"]["peak"] = peak_json(p);
  const auto [least, most] = p.memory.interval(p.memory.peak, p.interval_level);
  json["memory"]["peak_interval_bytes"] = Json::array({amount(least), amount(most)});
  json["communication"] = list_json(p.communication, communication_json);
  json["flops"] = {{"model", amount(p.model_flops)}, {"hardware", amount(p.hardware_flops)}};
}

void add_nulls(Json& json) {
  for (const char* key :
       {"step_time_s", "step_time_interval_s", "interval_level", "tokens_per_s_per_device",
        "tflops_per_device", "mfu", "hfu", "conventions", "peak", "breakdown_s", "parts_s",
        "bubble", "memory", "communication", "flops"}) {
    json[key] = nullptr;
  }
}

const char* architecture_of(const sim::Transformer& model) {
  if (model.encoder) return "encoder";
  return sim::is_hybrid(model) ? "hybrid" : "decoder";
}

}  // namespace

Json field_json(const sim::FieldValue& value) {
  return std::visit([](const auto& stated) { return Json(stated); }, value);
}

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
          {"date", or_null(!run.date.empty(), run.date)},
          {"model", trained_model_json(run)},
          {"hardware", hardware_json(run.cluster)},
          {"training", training_json(run)}};
}

Json run_json(const sim::Prediction& p) { return run_json(unpadded_run(p)); }

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
  json["convention"] = or_null(rows.size() == 1, rows.front().convention);
  json["measured_step_time_s"] = or_null(reported.step_time);
  json["exact"] = list;
  return json;
}

Json switches_json(std::span<const sim::SwitchWorth> switches) {
  return list_json(switches, [](const sim::SwitchWorth& worth) {
    return Json{{"key", worth.key}, {"on", worth.on}, {"other_way", worth.other_way}};
  });
}

Json curve_json(const sim::MemoryCurve& curve) {
  const auto point_json = [&](const sim::MemoryPoint& point) {
    return Json{{"phase", point.phase},
                {"micro_batch", or_null(point.micro_batch)},
                {"layer", or_null(point.layer)},
                {"allocated_bytes", amount(point.allocated)},
                {"reserved_bytes", amount(curve.reserved(point))},
                {"terms", terms_json(point.terms.present())}};
  };
  return {{"stage", curve.stage},
          {"highest", curve.highest},
          {"points", list_json(curve.points, point_json)}};
}

sim::Run unpadded_run(const sim::Prediction& p) {
  sim::Run asked = p.run;
  if (p.unpadded_vocab_size > 0) asked.model.vocab_size = p.unpadded_vocab_size;
  return asked;
}

std::string run_text(const sim::Prediction& prediction) { return text_of(run_json(prediction)); }

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmsim::reports
