#include "runtime/measure/step_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/field.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

// None: no field has such a value.
std::optional<sim::FieldValue> value_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  const auto all = [&](auto is) { return std::ranges::all_of(value, is); };
  if (!value.empty() && all([](const json& one) { return one.is_string(); }))
    return value.get<sim::Words>();
  if (all([](const json& one) { return one.is_number_integer(); }))
    return value.get<std::vector<int>>();
  return std::nullopt;
}

// What an object states of some fields: "recompute.kind" stands in the object "recompute".
template <class AnyField>
sim::PartialRecord stated_in(const json& object, const std::vector<AnyField>& fields) {
  sim::PartialRecord stated;
  for (const AnyField& field : fields) {
    const std::string key = field.key;
    const std::size_t dot = key.find('.');
    const json* at = &object;
    if (dot != std::string::npos) {
      const auto outer = object.find(key.substr(0, dot));
      at = outer != object.end() && outer->is_object() ? &*outer : nullptr;
    }
    if (at == nullptr) continue;
    const auto found = at->find(dot == std::string::npos ? key : key.substr(dot + 1));
    if (found == at->end()) continue;
    if (const auto value = value_of(*found)) stated.emplace(key, *value);
  }
  return stated;
}

const json& object_of(const json& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_object())
    throw Error(std::string(key) + ": the run file of a step states it");
  return *found;
}

}  // namespace

StepCase step_of_record(const json& record, c10::Device device) {
  const json &model = object_of(record, "model"), &training = object_of(record, "training");
  StepCase one;
  one.key = record.value("id", "step");
  one.setup.model.name = model.value("name", one.key);
  one.setup.device = device;
  one.setup.balanced_experts = true;
  one.setup.autocast = training.value("framework", "") == "libtorch-autocast";
  sim::put(sim::transformer_fields(), stated_in(model, sim::transformer_fields()), one.setup.model);
  sim::put(stated_in(training, sim::strategy_fields()), one.setup.strategy);
  return one;
}

StepCase read_step_file(const std::string& path, c10::Device device) {
  std::ifstream file(path);
  if (!file) throw Error("--step = " + path + ": cannot be read");
  const json record = json::parse(file, nullptr, false);
  if (!record.is_object())
    throw Error("--step = " + path + ": no run file; a JSON object is expected");
  try {
    return step_of_record(record, device);
  } catch (const Error& error) {
    throw Error("--step = " + path + ": " + error.what());
  } catch (const json::exception&) {
    throw Error("--step = " + path + ": id, model.name and training.framework are texts");
  }
}

}  // namespace llmsim::runtime
