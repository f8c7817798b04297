#include "hwdb/runs/plan_query.h"

#include <string>

namespace llmsim::hwdb {

sim::PlanQuery plan_query(RunRecord record, RunResolver& resolver) {
  sim::PlanQuery query;
  for (const sim::Sharding sharding : sim::kAllShardings) {
    record.training.strategy["sharding"] = std::string(sim::name_of(sharding));
    query.under.emplace(sharding, resolver.resolve_without_layout(record));
  }
  query.laid_out = resolver.site_layouts();
  query.base = query.under.at(sim::Sharding::None);
  return query;
}

RunRecord without_layout(RunRecord record, const sim::Run& run) {
  RecordedTraining& training = record.training;
  for (const sim::SearchedField& field : sim::searched_fields()) {
    if (field.restricted != sim::Restricted::Never && !field.opt_in)
      training.strategy.erase(field.key);
  }
  std::erase_if(training.strategy,
                [](const auto& stated) { return stated.first.starts_with("recompute."); });
  training.num_microbatches.reset();
  training.replicate_size.reset();
  training.framework = run.framework.id;
  training.strategy["global_batch"] = std::int64_t{run.strategy.global_batch};
  return record;
}

}  // namespace llmsim::hwdb
