#include "reports/json.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace llmsim::reports {
namespace {

// A figure, or null where it is not finite.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// A byte count or a FLOP count: an integer where it is one.
Json amount(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::isfinite(value) && std::abs(value) < kExact && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return number(value);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json moe_json(const std::optional<sim::Moe>& moe) {
  if (!moe) return nullptr;
  return {{"num_experts", moe->num_experts},
          {"top_k", moe->top_k},
          {"expert_ffn_size", moe->expert_ffn_size},
          {"num_shared_experts", moe->num_shared_experts},
          {"shared_expert_ffn_size", moe->shared_expert_ffn_size},
          {"num_dense_layers", moe->num_dense_layers},
          {"num_groups", moe->num_groups},
          {"groups_per_token", moe->groups_per_token},
          {"layer_interval", moe->layer_interval},
          {"router_bias", moe->router_bias},
          {"expert_bias", moe->expert_bias},
          {"shared_expert_gate", moe->shared_expert_gate}};
}

Json biases_json(const sim::Biases& bias) {
  return {{"qkv", bias.qkv},
          {"attention_output", bias.attention_output},
          {"mlp", bias.mlp},
          {"norm", bias.norm},
          {"head", bias.head}};
}

const char* name_of(sim::QkNorm norm) {
  switch (norm) {
    case sim::QkNorm::None: return "none";
    case sim::QkNorm::PerHead: return "per-head";
    case sim::QkNorm::AllHeads: break;
  }
  return "all-heads";
}

Json mla_json(const std::optional<sim::Mla>& mla) {
  if (!mla) return nullptr;
  return {{"q_lora_rank", or_null(mla->q_lora_rank)},
          {"kv_lora_rank", mla->kv_lora_rank},
          {"qk_nope_head_dim", mla->qk_nope_head_dim},
          {"qk_rope_head_dim", mla->qk_rope_head_dim},
          {"v_head_dim", mla->v_head_dim}};
}

Json encoder_json(const std::optional<sim::Encoder>& encoder) {
  if (!encoder) return nullptr;
  return {{"predicted_share", encoder->predicted_share},
          {"segment_types", encoder->segment_types},
          {"next_sentence", encoder->next_sentence}};
}

Json trained_model_json(const sim::Run& run) {
  Json json = transformer_json(run.model);
  if (const auto& adapters = run.strategy.adapters) {
    json["trainable"] = "lora";
    json["lora"] = {{"rank", adapters->rank}, {"targets", adapters->all_linear ? Json::array({"all"}) : Json::array({"q", "v"})}};
  }
  return json;
}

Json hardware_json(const sim::Cluster& cluster) {
  const double per_device = cluster.network.node_bandwidth.value() / cluster.devices_per_node;
  return {{"accelerator", cluster.device.id},
          {"system", cluster.id == cluster.device.id ? Json(nullptr) : Json(cluster.id)},
          {"num_devices", cluster.num_devices},
          {"devices_per_node", cluster.devices_per_node},
          {"inter_node_bytes_per_s_per_device", per_device > 0.0 ? number(per_device) : Json(nullptr)},
          {"transport", sim::name_of(cluster.network.transport)},
          {"collective_algorithm", sim::name_of(cluster.algorithm)}};
}

// The names of modules as a list, from their text joined by "+".
Json names_json(const std::string& text) {
  Json names = Json::array();
  for (std::size_t from = 0; from < text.size(); from = std::min(text.find('+', from), text.size()) + 1)
    names.push_back(text.substr(from, text.find('+', from) - from));
  return names;
}

Json recompute_json(const sim::Recompute& r) {
  const bool spaced = r.kind == sim::RecomputeKind::EveryN || r.every_n > 1;
  Json json = {{"kind", sim::name_of(r.kind)}, {"every_n", spaced ? Json(r.every_n) : Json(nullptr)}};
  if (r.share > 1) json["share"] = r.share;
  if (r.first_blocks > 0) json["blocks"] = r.first_blocks;
  if (r.kind == sim::RecomputeKind::Selective) json["modules"] = names_json(sim::text_of(r.modules));
  if (r.kind == sim::RecomputeKind::Op) json["saved"] = sim::name_of(r.kept);
  return json;
}

Json offload_json(const sim::Offload& offload) {
  Json json = {{"optimizer", offload.optimizer}, {"parameters", offload.parameters}, {"activations", offload.activations}};
  if (offload.blocks > 0) json["blocks"] = offload.blocks;
  if (offload.modules.any()) json["modules"] = names_json(sim::text_of(offload.modules));
  return json;
}

// None where the strategy's numbers do not go together.
Json microbatches_json(const sim::Strategy& s) {
  const std::int64_t replica_batch = std::int64_t{s.data_parallel} * s.micro_batch;
  if (replica_batch < 1 || s.global_batch % replica_batch != 0) return nullptr;
  return s.global_batch / replica_batch;
}

// Only where experts are laid out otherwise than by default: keys that most runs have no use for.
void add_experts(Json& json, const sim::ExpertStrategy& experts) {
  if (experts.tensor_parallel) json["etp"] = *experts.tensor_parallel;
  if (experts.dispatch != sim::ExpertDispatch::AllToAll) json["moe_dispatch"] = sim::name_of(experts.dispatch);
  if (experts.overlap) json["moe_overlap"] = true;
  if (!experts.captured) json["moe_captured"] = false;
  if (experts.imbalance != 1.0) json["moe_imbalance"] = experts.imbalance;
  if (experts.capacity) json["moe_capacity"] = *experts.capacity;
}

Json mesh_json(const sim::Strategy& s) {
  const bool context = s.context_parallel > 1;
  const bool hsdp = s.sharding != sim::Sharding::None && s.shard_size > 0;
  Json json = {{"micro_batch", s.micro_batch},
               {"global_batch", s.global_batch},
               {"num_microbatches", microbatches_json(s)},
               {"dp", s.data_parallel},
               {"tp", s.tensor_parallel},
               {"pp", s.pipeline_parallel},
               {"cp", s.context_parallel},
               {"ep", s.expert_parallel},
               {"cp_scheme", context ? Json(sim::name_of(s.context_scheme)) : Json(nullptr)},
               {"cp_balanced", context ? Json(s.context_balanced) : Json(nullptr)},
               {"virtual_stages", s.virtual_stages},
               {"pipeline_schedule", s.pipeline_parallel > 1 ? Json(sim::name_of(s.schedule)) : Json(nullptr)},
               {"embeddings_as_layers", s.embeddings_as_layers},
               {"sharding", sim::name_of(s.sharding)},
               {"shard_size", hsdp ? Json(s.shard_size) : Json(nullptr)},
               {"replicate_size", hsdp ? Json(s.data_parallel * s.context_parallel / s.shard_size) : Json(nullptr)}};
  if (!s.stage_layers.empty()) json["stage_layers"] = s.stage_layers;
  add_experts(json, s.experts);
  return json;
}

Json switches_json(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  return {{"sequence_parallel", s.sequence_parallel},
          {"flash_attention", s.flash_attention},
          {"attention_kernel", s.flash_attention ? Json(sim::name_of(run.framework.attention_kernel)) : Json(nullptr)},
          {"compile", s.compile},
          {"fused_cross_entropy", s.fused_cross_entropy},
          {"tp_overlap", s.tensor_overlap},
          {"dp_overlap", s.gradient_overlap == s.gather_overlap ? Json(s.gradient_overlap) : Json(nullptr)},
          {"gradient_overlap", s.gradient_overlap},
          {"gather_overlap", s.gather_overlap},
          {"cuda_graph", s.cuda_graph}};
}

// What the framework does that people ask about, and all settings that the run states.
Json settings_json(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  const bool sharded = (s.sharding == sim::Sharding::Hsdp && s.shard_size > 0) || s.sharding == sim::Sharding::Zero3;
  const sim::ShardedWeights& weights = run.framework.sharded;
  Json json = {{"grad_sync_every_microbatch", run.framework.gradients.reduced_every_microbatch},
               {"reshard_after_forward", sharded ? Json(weights.regathers_in_backward) : Json(nullptr)},
               {"fsdp_unit_blocks", sharded ? Json(weights.unit_blocks) : Json(nullptr)}};
  for (const auto& [key, value] : run.settings)
    std::visit([&json, &key = key](const auto& stated) { json[key] = stated; }, value);
  return json;
}

Json training_json(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  Json json = {{"framework", run.framework.id},
               {"framework_version", run.framework_version.empty() ? Json(nullptr) : Json(run.framework_version)},
               {"precision", sim::name_of(s.precision)},
               {"optimizer", sim::name_of(s.optimizer)}};
  for (const Json& part : {mesh_json(s), switches_json(run), settings_json(run)}) json.update(part);
  json["recompute"] = recompute_json(s.recompute);
  json["offload"] = offload_json(s.offload);
  return json;
}

Json conventions_json(const sim::Prediction& p) {
  Json json = Json::object();
  for (const sim::Convention& convention : p.conventions) {
    json[convention.name] = {{"tflops_per_device", number(convention.flops_per_device / sim::TFLOPS)},
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
    timeline.push_back(
        {{"phase", phase.phase}, {"allocated_bytes", amount(phase.allocated.value())}, {"terms", terms_json(phase.terms)}});
  }
  return {
      {"peak_bytes", amount(memory.peak.value())},
      {"reserved_bytes", amount(memory.reserved.value())},
      {"device_bytes", amount(memory.device.value())},
      {"context_bytes", amount(memory.context.value())},
      {"capacity_bytes", amount(memory.capacity.value())},
      {"host_bytes", amount(memory.host.device.value())},
      {"host_node_bytes", amount(memory.host.node.value())},
      {"host_node_capacity_bytes", memory.host.capacity > sim::Bytes(0.0) ? amount(memory.host.capacity.value()) : Json(nullptr)},
      {"margin_bytes", amount(memory.margin.value())},
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
    assumed.push_back({{"key", fact.key.substr(sizeof("assumed.") - 1)}, {"value", fact.value}, {"reason", fact.source}});
  }
  for (const std::string& source : sources_of(run)) sources.push_back(source);
  return {{"database", provenance.database}, {"coefficients", coefficients_of(run)}, {"assumed", assumed}, {"sources", sources}};
}

// The figures of a run that was simulated.
void add_figures(const sim::Prediction& p, Json& json) {
  Json breakdown = Json::object();
  for (const sim::TimeTerm& term : p.breakdown) breakdown[term.name] = number(term.time.value());
  json["step_time_s"] = number(p.step_time.value());
  json["step_time_interval_s"] = Json::array({number(p.interval.first.value()), number(p.interval.second.value())});
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
  json["bubble"] = number(p.bubble);
  json["memory"] = memory_json(p.memory);
  json["memory"]["peak"] = peak_json(p);
  json["communication"] = communication_json(p.communication);
  json["flops"] = {{"model", amount(p.model_flops.value())}, {"hardware", amount(p.hardware_flops.value())}};
}

void add_nulls(Json& json) {
  for (const char* key : {"step_time_s", "step_time_interval_s", "interval_level", "tokens_per_s_per_device", "tflops_per_device",
                          "mfu", "hfu", "conventions", "peak", "breakdown_s", "bubble", "memory", "communication", "flops"}) {
    json[key] = nullptr;
  }
}

}  // namespace

Json transformer_json(const sim::Transformer& m) {
  return {{"name", m.name},
          {"architecture", m.encoder ? "encoder" : "decoder"},
          {"num_layers", m.num_layers},
          {"hidden_size", m.hidden_size},
          {"num_heads", m.num_heads},
          {"num_kv_heads", m.num_kv_heads},
          {"head_dim", m.head_dim},
          {"ffn_size", m.ffn_size},
          {"vocab_size", m.vocab_size},
          {"seq_len", m.seq_len},
          {"gated_mlp", m.gated_mlp},
          {"tied_embeddings", m.tied_embeddings},
          {"bias", m.bias.qkv || m.bias.attention_output || m.bias.mlp},
          {"biases", biases_json(m.bias)},
          {"parallel_block", m.parallel_block},
          {"norm", name_of(m.norm)},
          {"norm_weight", m.norm_weight},
          {"norms_per_layer", m.norms_per_layer},
          {"final_norm", m.final_norm},
          {"embedding_norm", m.embedding_norm},
          {"qk_norm", name_of(m.qk_norm)},
          {"position", name_of(m.position)},
          {"max_positions", m.max_positions},
          {"sliding_window", or_null(m.sliding_window)},
          {"sliding_window_interval", m.sliding_window_interval},
          {"attention_sinks", m.attention_sinks},
          {"moe", moe_json(m.moe)},
          {"mla", mla_json(m.mla)},
          {"encoder", encoder_json(m.encoder)},
          {"mtp_layers", m.mtp_layers > 0 ? Json(m.mtp_layers) : Json(nullptr)},
          {"num_parameters", sim::parameters(m).total()},
          {"trainable", "all"}};
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
  if (p.asked_vocab_size > 0) asked.model.vocab_size = p.asked_vocab_size;
  return run_json(asked);
}

Json prediction_json(const sim::Prediction& p, const Provenance& provenance) {
  Json json{{"run", run_json(p)}, {"feasible", p.feasible()}};
  if (p.infeasible) json["infeasible"] = {{"rule", p.infeasible->rule}, {"message", p.infeasible->message}};
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
    list[row.convention] = {
        {"step_time_s", row.step_time.value()}, {"tflops_per_device", row.exact / sim::TFLOPS}, {"mfu", row.exact_mfu}};
  }
  json["tflops_per_device"] = reported_rate(p, reported) / sim::TFLOPS;
  json["mfu"] = reported_rate(p, reported) / p.peak;
  json["convention"] = rows.size() == 1 ? Json(rows.front().convention) : Json(nullptr);
  json["measured_step_time_s"] = reported.step_time ? Json(reported.step_time->value()) : Json(nullptr);
  json["exact"] = list;
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

std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace llmsim::reports
