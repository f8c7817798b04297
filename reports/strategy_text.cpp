#include "reports/strategy_text.h"

#include <algorithm>
#include <vector>

#include "sim/base/error.h"

namespace llmsim::reports {

std::string recompute_text(const sim::Recompute& recompute) { return sim::text_of(recompute); }

std::string sharding_text(const sim::Strategy& strategy) {
  const std::string name = sim::name_of(strategy.sharding);
  return strategy.replicates_shards() ? name + "/" + std::to_string(strategy.shard_size) : name;
}

std::string recipe_text(const sim::Strategy& strategy) {
  const std::string text =
      std::string(sim::name_of(strategy.precision)) + ", " + sim::name_of(strategy.optimizer);
  const auto& adapters = strategy.adapters;
  return adapters ? text + ", LoRA of rank " + std::to_string(adapters->rank) + " on " +
                        sim::joined(names_of(adapters->layers), ", ")
                  : text;
}

std::string mesh_text(const sim::Strategy& s) {
  std::string text;
  const auto add = [&](const char* name, int size) {
    if (size != 1)
      text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(size);
  };
  add("tp", s.tp);
  if (s.sequence_parallel) text += " with sp";
  add("pp", s.pp);
  add("cp", s.cp);
  if (s.cp > 1)
    text += std::string(" ") + sim::name_of(s.cp_scheme) + (s.cp_balanced ? "" : " unbalanced");
  add("dp", s.dp);
  add("ep", s.ep);
  if (s.etp) add("etp", *s.etp);
  if (s.pp > 1 && s.dp > 1 && s.mesh_order != sim::MeshOrder::PipelineLast)
    text += std::string(", ") + sim::name_of(s.mesh_order);
  return text.empty() ? "one device" : text;
}

namespace {

constexpr std::ptrdiff_t kRun = 4;  // of equal numbers of layers that are told as one

// "7+10+10+9", "2+10x3+2+0".
std::string numbers_text(const std::vector<int>& layers) {
  std::string text;
  for (auto first = layers.begin(); first != layers.end();) {
    auto last = std::find_if(first, layers.end(), [&](int other) { return other != *first; });
    const bool is_run = last - first >= kRun;
    if (!is_run) last = first + 1;
    text += (text.empty() ? "" : "+") + (is_run ? std::to_string(last - first) + "x" : "") +
            std::to_string(*first);
    first = last;
  }
  return text;
}

// ", 10 layers a stage, 6 in the last", ", layers 7+10+10+9", ", embedding and head as layers";
// nothing where the stages have equally many layers.
std::string layers_text(const sim::Strategy& s) {
  const std::vector<int>& layers = s.stage_layers;
  if (layers.empty()) return s.embeddings_as_layers ? ", embedding and head as layers" : "";
  if (layers.size() > 2 && std::equal(layers.begin() + 1, layers.end() - 1, layers.begin()))
    return ", " + std::to_string(layers.front()) +
           (s.virtual_stages > 1 ? " layers a chunk, " : " layers a stage, ") +
           std::to_string(layers.back()) + " in the last";
  return ", layers " + numbers_text(layers);
}

}  // namespace

std::string strategy_text(const sim::Strategy& s) {
  std::string text = mesh_text(s) + ", sharding " + sharding_text(s) + ", micro-batch " +
                     std::to_string(s.micro_batch) + ", recompute " + recompute_text(s.recompute);
  if (s.pp > 1 && s.pipeline_schedule > sim::PipelineSchedule::Interleaved)
    text += std::string(", ") + sim::name_of(s.pipeline_schedule);
  else if (s.virtual_stages > 1)
    text += ", " + std::to_string(s.virtual_stages) + " virtual stages";
  text += layers_text(s);
  if (s.tp > 1 && s.tp_overlap) text += ", tp overlap";
  const bool exchanges = s.ep * s.expert_tensor_ranks() > 1;
  if (exchanges && s.moe_dispatch != sim::ExpertDispatch::AllToAll)
    text += std::string(", ") + sim::name_of(s.moe_dispatch);
  if (s.ep > 1 && s.moe_overlap) text += ", moe overlap";
  return text;
}

}  // namespace llmsim::reports
