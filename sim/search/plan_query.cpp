#include "sim/search/plan_query.h"

#include <algorithm>
#include <cstdint>
#include <utility>

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
  if (s.cp == 1 || s.cp_scheme != ContextScheme::AllToAllRing) s.cp_inner.reset();
  if (s.pp == 1 || s.dp == 1) s.mesh_order = MeshOrder::PipelineLast;
  if (s.pp * s.virtual_stages == 1) {
    s.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
    s.embeddings_as_layers = false;
  }
  const bool one_group = s.sharding != Sharding::Hsdp && s.shard_size == s.dp * s.cp;
  if (s.sharding == Sharding::None || one_group) s.shard_size = 0;
  return s;
}

// What a search would have chosen for it.
SearchChoice choice_of(const Strategy& s) {
  SearchChoice choice;
  for (const SearchedField& field : searched_fields()) {
    if (field.value.read) field.value.read(s, choice);
  }
  return choice;
}

// With the layers of the last chunk where the space has such a pipeline.
SearchPipeline pipeline_of(const SearchSpace& space, const Strategy& s) {
  const SearchChoice choice = choice_of(s);
  const SearchPipeline& even = choice.pipeline;
  for (const SearchPipeline& member : space.pipelines(s.pp)) {
    if (member.schedule == even.schedule && member.virtual_stages == even.virtual_stages &&
        member.embeddings_as_layers == even.embeddings_as_layers &&
        space.strategy(choice.layout, member, {}, {}).stage_layers == s.stage_layers)
      return member;
  }
  return even;
}

// Of the members of a level those that agree with `choice` in one field after the other; a value
// that none of them has is outside, and is passed over.  `view_of(member)`: as a choice.
template <class Member, class ViewOf>
void judge_level(SearchLevel level, std::vector<Member> members, const SearchChoice& choice,
                 const ViewOf& view_of, std::vector<std::string>& outside) {
  for (const SearchedField& field : searched_fields()) {
    if (field.level != level || field.is_rest || field.restricted == Restricted::Never) continue;
    const std::int64_t value = field.value.get({choice.layout, choice.pipeline, choice.sharding});
    std::vector<Member> agreeing;
    for (const Member& member : members) {
      if (field.value.get(view_of(member)) == value) agreeing.push_back(member);
    }
    if (agreeing.empty())
      outside.emplace_back(field.key);
    else
      members = std::move(agreeing);
  }
}

void judge_choices(const SearchSpace& space, const Strategy& s, std::vector<std::string>& outside) {
  const SearchChoice own = choice_of(s);
  judge_level(
      SearchLevel::Layout, space.layouts(), own,
      [&](const SearchLayout& layout) {
        return SearchChoiceView{layout, own.pipeline, own.sharding};
      },
      outside);
  judge_level(
      SearchLevel::Pipeline, space.pipelines(s.pp), own,
      [&](const SearchPipeline& pipeline) {
        return SearchChoiceView{own.layout, pipeline, own.sharding};
      },
      outside);
  judge_level(
      SearchLevel::Sharding, space.shardings(own.layout), own,
      [&](const SearchSharding& sharding) {
        return SearchChoiceView{own.layout, own.pipeline, sharding};
      },
      outside);
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
  const SearchChoice choice = choice_of(s);
  const Strategy member = normalised(
      space.strategy(choice.layout, pipeline_of(space, s), choice.sharding, s.recompute));
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
