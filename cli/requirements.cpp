#include "cli/requirements.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "reports/units.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::cli {
namespace {

constexpr double kSecondsOfADay = 86400.0;

struct Unit {
  const char* quantity;
  const char* name;
  double size;
};

// Of each quantity the first unit is what it is told in.
constexpr Unit kUnits[] = {{"memory", "GiB", 1024.0 * 1024.0 * 1024.0},
                           {"memory", "MiB", 1024.0 * 1024.0},
                           {"memory", "TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0},
                           {"memory", "GB", 1e9},
                           {"memory", "MB", 1e6},
                           {"memory", "TB", 1e12},
                           {"memory", "B", 1.0},
                           {"memory", "%", 0.01},
                           {"step", "s", 1.0},
                           {"step", "ms", 1e-3},
                           {"step", "min", 60.0},
                           {"tokens", "", 1.0},
                           {"mfu", "%", 0.01},
                           {"mfu", "", 1.0},
                           {"hfu", "%", 0.01},
                           {"hfu", "", 1.0},
                           {"fits", "%", 0.01},
                           {"fits", "", 1.0},
                           {"days", "", 1.0},
                           {"days", "d", 1.0},
                           {"cost", "", 1.0},
                           {"cost", "USD", 1.0}};
constexpr const char* kQuantities = "memory, step, tokens, mfu, hfu, fits, days or cost";

const Unit* first_unit(const std::string& quantity) {
  const auto* const unit =
      std::ranges::find_if(kUnits, [&](const Unit& one) { return quantity == one.quantity; });
  return unit == std::end(kUnits) ? nullptr : unit;
}

std::string units_of(const std::string& quantity) {
  std::string names;
  for (const Unit& one : kUnits)
    if (quantity == one.quantity && *one.name != '\0')
      names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

[[noreturn]] void refuse_requirement(const std::string& text, const std::string& right) {
  throw Error("--require = " + text + ": " + right + " is expected");
}

Requirement requirement(const std::string& text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign == std::string::npos || sign == 0)
    refuse_requirement(
        text, std::string(kQuantities) + " with <, <=, > or >= and a limit, as in memory<75GiB,");
  Requirement one{
      .text = text, .quantity = text.substr(0, sign), .comparison = text.substr(sign, 1)};
  std::size_t at = sign + 1;
  if (at < text.size() && text[at] == '=') one.comparison += text[at++];
  if (!first_unit(one.quantity)) refuse_requirement(text, kQuantities);
  const std::size_t end = text.find_first_not_of("0123456789.e+-", at);
  const std::string number = text.substr(at, end == std::string::npos ? end : end - at);
  const std::string unit = end == std::string::npos ? "" : text.substr(end);
  const auto value = sim::number_from(number);
  const auto* const known = std::ranges::find_if(kUnits, [&](const Unit& other) {
    return one.quantity == other.quantity && unit == other.name;
  });
  if (!value || *value < 0.0 || known == std::end(kUnits)) {
    const std::string units = units_of(one.quantity);
    refuse_requirement(text,
                       "a limit of 0 or more" + (units.empty() ? std::string() : " in " + units));
  }
  one.limit = *value * known->size;
  one.of_device = one.quantity == "memory" && unit == "%";
  return one;
}

double value_of(const Requirement& one, const sim::Prediction& prediction,
                const std::optional<reports::JobAnswer>& job) {
  if (one.quantity == "memory") {
    const sim::Bytes needed = prediction.memory.needed();
    return one.of_device ? needed / prediction.run.cluster.device.memory : needed.value();
  }
  if (one.quantity == "step") return prediction.step_time.value();
  if (one.quantity == "tokens") return prediction.tokens_per_second_per_device;
  if (one.quantity == "mfu") return prediction.mfu;
  if (one.quantity == "hfu") return prediction.hfu;
  if (one.quantity == "fits") return prediction.memory.fit_probability();
  if (!job) throw Error("--require = " + one.text + ": is of a whole job; --tokens is missing");
  if (one.quantity == "days") return job->estimate.wall_time.value.value() / kSecondsOfADay;
  if (!job->estimate.cost)
    throw Error("--require = " + one.text +
                ": no price of the device is known; --price is missing");
  return job->estimate.cost->value;
}

bool met(const Requirement& one, double value) {
  if (one.comparison == "<") return value < one.limit;
  if (one.comparison == "<=") return value <= one.limit;
  if (one.comparison == ">") return value > one.limit;
  return value >= one.limit;
}

std::string told(const Requirement& one, double value) {
  const Unit* const unit =
      one.of_device ? std::ranges::find_if(kUnits, [](const Unit& u) { return u.size == 0.01; })
                    : first_unit(one.quantity);
  const std::string name = unit->name;
  return reports::significant(value / unit->size) + (name.empty() ? "" : " " + name);
}

}  // namespace

std::vector<Requirement> requirements_in(const std::string& text) {
  std::vector<Requirement> all;
  if (text.empty()) return all;
  for (const std::string& word : names_in("--require", text)) all.push_back(requirement(word));
  return all;
}

void add_require_option(CLI::App& command, std::optional<std::string>& list) {
  add_option(command, "--require", list, "LIST",
             "what the answer must be like, else exit status 3 and the first that is not met: "
             "memory (needed; GiB, GB, % of the device's), step (s), tokens (per second and "
             "device), mfu, hfu, fits (%), and with --tokens days and cost (USD), each with <, "
             "<=, > or >= and a limit; default none; example: --require 'memory<75GiB,mfu>40%'");
}

std::string unmet(const std::vector<Requirement>& requirements, const sim::Prediction& prediction,
                  const std::optional<reports::JobAnswer>& job) {
  for (const Requirement& one : requirements) {
    const double value = value_of(one, prediction, job);
    if (!met(one, value)) return "--require " + one.text + ": it is " + told(one, value);
  }
  return "";
}

}  // namespace llmsim::cli
