#include "sim/search/plan_query.h"

#include <algorithm>

#include "sim/strategy/mesh.h"
#include "sim/strategy/strategy.h"

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
                  query.excluded,
                  query.base.cluster.fabric.devices,
                  domain_size(query.base.cluster)};
  for (const Sharding sharding : kAllShardings)
    base.under[index_of(sharding)] = run_under(query, sharding).strategy;
  return base;
}

namespace {

// A strategy as the search writes it.
Strategy normalised(Strategy s) {
  if (s.tp == 1) s.sequence_parallel = s.tp_overlap = false;
  if (s.etp == s.tp) s.etp.reset();
  if (s.pp == 1 || s.dp == 1) s.mesh_order = MeshOrder::PipelineLast;
  if (s.pp * s.virtual_stages == 1) {
    s.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
    s.embeddings_as_layers = false;
  }
  const bool one_group = s.sharding != Sharding::Hsdp && s.shard_size == s.dp * s.cp;
  if (s.sharding == Sharding::None || one_group) s.shard_size = 0;
  return s;
}

SearchLayout layout_of(const Strategy& s) {
  return {.tp = s.tp,
          .pp = s.pp,
          .cp = s.cp,
          .dp = s.dp,
          .micro_batch = s.micro_batch,
          .ep = s.ep,
          .etp = s.etp.value_or(0),
          .sequence_parallel = s.sequence_parallel,
          .tp_overlap = s.tp_overlap,
          .moe_dispatch = s.moe_dispatch,
          .moe_overlap = s.moe_overlap};
}

// With the layers of the last part where the space has such a pipeline.
SearchPipeline pipeline_of(const SearchSpace& space, const Strategy& s) {
  const SearchPipeline even{.schedule = s.pipeline_schedule,
                            .virtual_stages = s.virtual_stages,
                            .embeddings_as_layers = s.embeddings_as_layers};
  for (const SearchPipeline& member : space.pipelines(s.pp)) {
    if (member.schedule == even.schedule && member.virtual_stages == even.virtual_stages &&
        member.embeddings_as_layers == even.embeddings_as_layers &&
        space.strategy(layout_of(s), member, {}, {}).stage_layers == s.stage_layers)
      return member;
  }
  return even;
}

// Members of a list that agree with one value after the other; a value that none of them has is
// outside, and is passed over.
template <class Member>
class Agreeing {
 public:
  Agreeing(std::vector<Member> members, std::vector<std::string>& outside)
      : members_(std::move(members)), outside_(outside) {}

  template <class Value>
  Agreeing& in(Value Member::*field, const Value& value, const char* key) {
    std::vector<Member> agreeing;
    for (const Member& member : members_) {
      if (member.*field == value) agreeing.push_back(member);
    }
    if (agreeing.empty())
      outside_.emplace_back(key);
    else
      members_ = std::move(agreeing);
    return *this;
  }

 private:
  std::vector<Member> members_;
  std::vector<std::string>& outside_;
};

void judge_choices(const SearchSpace& space, const Strategy& s, std::vector<std::string>& outside) {
  Agreeing(space.layouts(), outside)
      .in(&SearchLayout::tp, s.tp, "tp")
      .in(&SearchLayout::pp, s.pp, "pp")
      .in(&SearchLayout::cp, s.cp, "cp")
      .in(&SearchLayout::micro_batch, s.micro_batch, "micro_batch")
      .in(&SearchLayout::ep, s.ep, "ep")
      .in(&SearchLayout::etp, s.etp.value_or(0), "etp")
      .in(&SearchLayout::sequence_parallel, s.sequence_parallel, "sequence_parallel")
      .in(&SearchLayout::tp_overlap, s.tp_overlap, "tp_overlap")
      .in(&SearchLayout::moe_dispatch, s.moe_dispatch, "moe_dispatch")
      .in(&SearchLayout::moe_overlap, s.moe_overlap, "moe_overlap");
  Agreeing(space.pipelines(s.pp), outside)
      .in(&SearchPipeline::virtual_stages, s.virtual_stages, "virtual_stages")
      .in(&SearchPipeline::schedule, s.pipeline_schedule, "pipeline_schedule")
      .in(&SearchPipeline::embeddings_as_layers, s.embeddings_as_layers, "embeddings_as_layers");
  Agreeing(space.shardings(layout_of(s)), outside)
      .in(&SearchSharding::sharding, s.sharding, "sharding")
      .in(&SearchSharding::shard_size, s.shard_size, "shard_size")
      .in(&SearchSharding::mesh_order, s.mesh_order, "mesh_order");
  const std::vector<Recompute>& recomputes = space.recomputes();
  if (std::find(recomputes.begin(), recomputes.end(), s.recompute) == recomputes.end())
    outside.emplace_back("recompute");
}

template <class AnyField, class Record>
void judge_fields(const std::vector<AnyField>& fields, const Record& member, const Record& record,
                  const std::string& prefix, std::vector<std::string>& outside) {
  for (const AnyField& field : fields) {
    if (field.get(member) != field.get(record)) outside.push_back(prefix + field.key);
  }
}

// What the search leaves as it is, under the sharding of the strategy.
void judge_rest(const SearchSpace& space, const Run& under, const Run& run, const Strategy& s,
                std::vector<std::string>& outside) {
  const Strategy member = normalised(space.strategy(
      layout_of(s), pipeline_of(space, s), {s.sharding, s.shard_size, s.mesh_order}, s.recompute));
  judge_fields(strategy_fields(), member, s, "", outside);
  judge_fields(framework_fields(), under.framework, run.framework, "framework.", outside);
  const auto judge = [&](bool equal, const char* key) {
    if (!equal) outside.emplace_back(key);
  };
  judge(member.adapters == s.adapters, "adapters");
  judge(under.model == run.model, "model");
  judge(under.cluster.algorithm == run.cluster.algorithm, "collective_algorithm");
  judge(under.optimizer_step == run.optimizer_step, "optimizer_step");
}

}  // namespace

std::vector<std::string> fields_outside(const PlanQuery& query, const Run& run) {
  const SearchBase base = search_base(query);
  const SearchSpace space(base, query.restriction);
  const Strategy strategy = normalised(run.strategy);
  std::vector<std::string> outside;
  judge_choices(space, strategy, outside);
  judge_rest(space, run_under(query, strategy.sharding), run, strategy, outside);
  return outside;
}

}  // namespace llmsim::sim
