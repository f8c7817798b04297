#include "hwdb/launch/target_space.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "hwdb/launch/launch_fields.h"
#include "hwdb/launch/row_text.h"
#include "hwdb/launch/targets.h"
#include "sim/base/error.h"
#include "sim/search/searched_fields.h"
#include "sim/search/space.h"

namespace llmsim::hwdb {
namespace {

// The target whose rows say a run of the query: its own, or that of the program it launches.
const LaunchTarget* program_of(const sim::Run& run, const std::string& name) {
  const LaunchTarget* const target = find_target(name);
  if (!target || !target->written) return nullptr;
  return target->launches ? target_running(run.framework.id) : target;
}

// A search of which nothing is chosen yet.
class OpenQuery {
 public:
  OpenQuery(const sim::PlanQuery& query, const LaunchTarget& target)
      : target_(target), fields_(fields_of(query.base)) {
    for (const auto& [key, value] : fields_) {
      const sim::StrategyField* const field = sim::find_strategy_field(key);
      for (const auto& [sharding, run] : query.under)
        if (field && field->get(run.strategy) != field->get(query.base.strategy))
          by_sharding_.insert(key);
    }
  }

  // "TARGET cannot express FIELD = VALUE" where it cannot express any plan with these values of the
  // fields that `keys` name (others are left open); empty: it may.  No key: any plan at all.
  std::string refusal(const std::set<std::string>& keys, const LaunchValues& values) const {
    const OpenRun run = with(keys, values);
    const LaunchTable& table = shipped_table(target_.name);
    for (const StartRule& rule : table.never)
      if (always_hold(rule.broken_by, run))
        return refusal_text(keys_of(rule.broken_by), run) + ": " + rule.reason;
    for (const Row& row : table.rows)
      if (!may_be_written(row, run)) return refusal_text(fields_written(row), run);
    return "";
  }

 private:
  OpenRun with(const std::set<std::string>& keys, const LaunchValues& values) const {
    const auto is_named = [keys](const std::string& field) {
      return keys.contains(field.substr(0, field.find('.'))) || keys.contains(field);
    };
    OpenRun run{.fields = fields_, .is_open = [this, is_named](const std::string& field) {
                  return !is_named(field) && (is_of_layout(field) || by_sharding_.contains(field));
                }};
    std::erase_if(run.fields,
                  [&](const auto& of) { return is_named(of.first) && is_of_layout(of.first); });
    for (const auto& [field, value] : values)
      if (is_named(field)) run.fields[field] = value;
    return run;
  }

  std::string refusal_text(std::vector<std::string> keys, const OpenRun& run) const {
    std::erase_if(keys, run.is_open);
    return std::string(target_.name) + " cannot express " + text_of_terms(keys, run.fields);
  }

  const LaunchTarget& target_;
  LaunchValues fields_;
  std::set<std::string> by_sharding_;  // what the framework does otherwise under some
};

// The values that a search may choose for a field, more of them than it does.
std::vector<sim::FieldValue> values_of(const sim::StrategyField& field, const sim::Run& run) {
  std::vector<sim::FieldValue> values;
  if (field.kind == sim::FieldKind::Switch) return {false, true};
  for (const std::string& word : field.words) values.emplace_back(word);
  if (field.kind != sim::FieldKind::Count) return values;
  for (const int count : sim::divisors(run.cluster.num_devices))
    values.emplace_back(std::int64_t{count});
  // Model chunks go by layers, with the embedding and the head as two.
  for (int count = 1; field.key == "virtual_stages" && count <= run.model.num_layers + 2; ++count)
    if (run.cluster.num_devices % count != 0) values.emplace_back(std::int64_t{count});
  return values;
}

// Leaves out the values of a field that are refused.  Where all are, and they were asked for, that
// is the answer; else another field of their rows is the reason.
template <class RefusalOf>
void exclude(const std::string& key, const std::vector<sim::FieldValue>& values,
             const RefusalOf& refusal_of, sim::PlanQuery& query) {
  std::vector<sim::FieldValue> excluded;
  std::string first;
  for (const sim::FieldValue& value : values) {
    const std::string reason = refusal_of(value);
    if (reason.empty()) continue;
    if (excluded.empty()) first = reason;
    excluded.push_back(value);
  }
  const bool all = !excluded.empty() && excluded.size() == values.size();
  if (all && query.restriction.contains(key)) throw Error(first);
  for (const sim::FieldValue& value : excluded)
    if (!all) query.excluded[key].push_back(value);
}

void exclude_fields(const OpenQuery& open, sim::PlanQuery& query) {
  sim::Strategy piped = query.base.strategy;
  piped.pp = 2;
  const bool has_pipelines = open.refusal({"pp"}, stated_fields(piped)).empty();
  for (const sim::SearchedField& searched : sim::searched_fields()) {
    const sim::StrategyField* const field = sim::find_strategy_field(searched.key);
    if (!field || searched.restricted == sim::Restricted::Never) continue;
    const auto asked = query.restriction.find(field->key);
    const auto values =
        asked == query.restriction.end() ? values_of(*field, query.base) : asked->second;
    const auto refusal_of = [&](const sim::FieldValue& value) {
      // Of fields that only pipelines have, a value that the smallest may not have, none may.
      const bool of_pipelines = has_pipelines && searched.level == sim::SearchLevel::Pipeline;
      sim::Strategy strategy = of_pipelines ? piped : query.base.strategy;
      const bool fits = put_field(*field, strategy, value);
      return open.refusal({field->key, of_pipelines ? "pp" : field->key},
                          fits ? stated_fields(strategy) : LaunchValues());
    };
    exclude(field->key, values, refusal_of, query);
  }
}

void exclude_recomputes(const OpenQuery& open, sim::PlanQuery& query) {
  const sim::SearchBase base = sim::search_base(query);
  const sim::SearchSpace space(base, query.restriction);
  std::vector<sim::FieldValue> values;
  for (const sim::Recompute& one : space.recomputes()) values.emplace_back(text_of(one));
  const auto refusal_of = [&](const sim::FieldValue& value) {
    sim::Strategy strategy;
    strategy.recompute = *sim::recompute_from(sim::text_of(value));
    return open.refusal({"recompute"}, stated_fields(strategy));
  };
  exclude("recompute", values, refusal_of, query);
}

// Whether a strategy's fields can be written; asked by several threads.
class Admission {
 public:
  Admission(const sim::PlanQuery& query, const LaunchTarget& target)
      : target_(target), under_(query.under), fields_(fields_without_layout(query.base)) {
    for (const sim::Sharding sharding : sim::kAllShardings)
      under_.emplace(sharding, sim::run_under(query, sharding));
  }

  bool admits(const sim::Strategy& strategy) {
    const std::lock_guard lock(one_at_a_time_);
    sim::Run& run = under_.at(strategy.sharding);
    run.strategy = strategy;
    try {
      entries_of(target_, fields_with_layout(run, fields_));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  std::mutex one_at_a_time_;
  const LaunchTarget& target_;
  std::map<sim::Sharding, sim::Run> under_;
  LaunchValues fields_;
};

}  // namespace

sim::PlanQuery written_by(sim::PlanQuery query, const std::string& name) {
  const LaunchTarget* const target = program_of(query.base, name);
  if (!target) return query;
  const OpenQuery open(query, *target);
  if (const std::string reason = open.refusal({}, {}); !reason.empty()) throw Error(reason);
  exclude_fields(open, query);
  exclude_recomputes(open, query);
  query.rule = std::string("what ") + target->name + " cannot express";
  query.admits = [admission = std::make_shared<Admission>(query, *target)](
                     const sim::Strategy& strategy) { return admission->admits(strategy); };
  return query;
}

}  // namespace llmsim::hwdb
