#include "sim/switches.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/predict.h"
#include "sim/strategy/strategy_fields.h"

namespace llmsim::sim {

std::vector<SwitchWorth> switch_worths(const Run& run, const std::vector<std::string>& keys) {
  const Seconds time = predict(run).step_time;
  std::vector<SwitchWorth> worths;
  for (const std::string& key : keys) {
    const StrategyField* const field = find_strategy_field(key);
    if (!field || field->kind != FieldKind::Switch) continue;
    const std::optional<FieldValue> value = field->get(run.strategy);
    if (!value || !std::holds_alternative<bool>(*value)) continue;
    const bool on = std::get<bool>(*value);
    Run other = run;
    put(PartialStrategy{{key, !on}}, other.strategy);
    const Prediction prediction = predict(other);
    if (prediction.feasible() && prediction.step_time != time)
      worths.push_back({key, on, prediction.step_time / time});
  }
  std::stable_sort(worths.begin(), worths.end(), [](const SwitchWorth& a, const SwitchWorth& b) {
    return std::abs(std::log(a.other_way)) > std::abs(std::log(b.other_way));
  });
  return worths;
}

}  // namespace llmsim::sim
