#include "reports/step_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace llmsim::reports {
namespace {

constexpr const char* kRest = "the rest";

struct Ending {
  std::string_view ending;
  const char* part;
};

// The first that a term ends with.
constexpr std::array kParts{Ending{"head_and_loss", "GEMMs"},
                            Ending{"recompute", "recomputation"},
                            Ending{"gemm", "GEMMs"},
                            Ending{"attention", "attention"},
                            Ending{"memory_bound", "memory-bound kernels"},
                            Ending{"embedding", "memory-bound kernels"},
                            Ending{"gradient_copies", "memory-bound kernels"},
                            Ending{"optimizer", "memory-bound kernels"},
                            Ending{"offload_exposed", "host"},
                            Ending{"exposed", "communication"},
                            Ending{"contention", "communication"},
                            Ending{"bubble", "pipeline bubble"},
                            Ending{"launch_wait", "host"},
                            Ending{"host", "host"},
                            Ending{"straggler", "slowest device"}};

const char* part_of(std::string_view term) {
  const auto found = std::ranges::find_if(
      kParts, [&](const Ending& known) { return term.ends_with(known.ending); });
  return found == kParts.end() ? kRest : found->part;
}

}  // namespace

std::vector<StepPart> step_parts(const sim::Prediction& prediction) {
  std::vector<StepPart> parts;
  for (const sim::TimeTerm& term : prediction.breakdown) {
    const char* const name = part_of(term.name);
    const auto known = std::ranges::find_if(
        parts, [&](const StepPart& part) { return std::string_view(part.name) == name; });
    if (known == parts.end())
      parts.push_back({name, term.time});
    else
      known->time += term.time;
  }
  std::erase_if(parts, [](const StepPart& part) { return part.time <= sim::Seconds(0.0); });
  std::ranges::stable_sort(
      parts, [](const StepPart& one, const StepPart& other) { return one.time > other.time; });
  return parts;
}

std::vector<std::string> step_bars(const sim::Prediction& prediction, int width) {
  std::vector<std::string> lines;
  for (const StepPart& part : step_parts(prediction)) {
    const double share = part.time / prediction.step_time;
    if (share < 0.01) continue;
    lines.push_back(fmt::format("{:<20}  {:3} %  {}", part.name, std::lround(share * 100.0),
                                std::string(std::lround(share * width), '#')));
  }
  return lines;
}

Table step_bars_table(const sim::Prediction& prediction) {
  constexpr int kWidth = 50;
  Table table("What a step waits for", {as_text("part", "")});
  for (const std::string& line : step_bars(prediction, kWidth)) table.add_row({line});
  return table;
}

}  // namespace llmsim::reports
