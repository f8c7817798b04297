#include "reports/strategy_text.h"

namespace llmsim::reports {

std::string recompute_text(const sim::Recompute& recompute) { return sim::text_of(recompute); }

std::string sharding_text(const sim::Strategy& strategy) {
  const std::string name = sim::name_of(strategy.sharding);
  return strategy.replicates_shards() ? name + "/" + std::to_string(strategy.shard_size) : name;
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
  return text.empty() ? "one device" : text;
}

std::string strategy_text(const sim::Strategy& s) {
  std::string text = mesh_text(s) + ", sharding " + sharding_text(s) + ", micro-batch " +
                     std::to_string(s.micro_batch) + ", recompute " + recompute_text(s.recompute);
  if (s.pp > 1 && s.pipeline_schedule > sim::PipelineSchedule::Interleaved)
    return text + ", " + sim::name_of(s.pipeline_schedule);
  if (s.virtual_stages > 1) text += ", " + std::to_string(s.virtual_stages) + " virtual stages";
  return text;
}

}  // namespace llmsim::reports
