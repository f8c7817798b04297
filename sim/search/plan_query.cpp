#include "sim/search/plan_query.h"

namespace llmsim::sim {

const Run& run_under(const PlanQuery& query, Sharding sharding) {
  const auto found = query.under.find(sharding);
  return found == query.under.end() ? query.base : found->second;
}

SearchBase search_base(const PlanQuery& query) {
  SearchBase base{query.base.model,
                  query.base.cluster.num_devices,
                  query.base.strategy,
                  {},
                  query.base.framework.offers,
                  query.excluded};
  for (const Sharding sharding : kAllShardings)
    base.under[index_of(sharding)] = run_under(query, sharding).strategy;
  return base;
}

}  // namespace llmsim::sim
