#include "hwdb/runs/plan_query.h"

#include <array>
#include <string>

namespace llmsim::hwdb {
namespace {

// Fields that follow the searched ones.
constexpr std::array<const char*, 4> kOfLayout{"etp", "shard_size", "sequence_parallel",
                                               "embeddings_as_layers"};

}  // namespace

sim::PlanQuery plan_query(RunRecord record, RunResolver& resolver) {
  sim::PlanQuery query;
  for (const sim::Sharding sharding : sim::kAllShardings) {
    record.training.strategy["sharding"] = std::string(sim::name_of(sharding));
    query.under.emplace(sharding, resolver.resolve_without_layout(record));
  }
  query.base = query.under.at(sim::Sharding::None);
  return query;
}

RunRecord without_layout(RunRecord record, const sim::Run& run) {
  RecordedTraining& training = record.training;
  for (const std::string_view field : sim::kSearchedFields)
    training.strategy.erase(std::string(field));
  for (const char* field : kOfLayout) training.strategy.erase(field);
  std::erase_if(training.strategy,
                [](const auto& stated) { return stated.first.starts_with("recompute."); });
  training.num_microbatches.reset();
  training.replicate_size.reset();
  training.framework = run.framework.id;
  training.strategy["global_batch"] = std::int64_t{run.strategy.global_batch};
  return record;
}

}  // namespace llmsim::hwdb
