#include "cli/plan_space.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/interruption.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

// Those of the search, in the order of the fields of a strategy.
std::vector<const sim::StrategyField*> space_fields(const sim::PlanQuery& query) {
  std::vector<const sim::StrategyField*> fields;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const sim::SearchedField* const searched = sim::find_searched_field(field.key);
    if (searched && (!searched->opt_in || query.restriction.contains(field.key)))
      fields.push_back(&field);
  }
  return fields;
}

void put(fmt::memory_buffer& text, const sim::FieldValue& value) {
  const auto out = std::back_inserter(text);
  if (const auto* number = std::get_if<std::int64_t>(&value))
    fmt::format_to(out, FMT_COMPILE("{},"), *number);
  else if (const auto* on = std::get_if<bool>(&value))
    fmt::format_to(out, FMT_COMPILE("{},"), *on);
  else
    fmt::format_to(out, FMT_COMPILE("{},"), reports::csv_cell(sim::text_of(value)));
}

long long whole(sim::Bytes bytes) { return std::llrint(bytes.value()); }

// A million of them: numbers by fmt, in the fewest digits that are read back the same.
class SpaceRows {
 public:
  SpaceRows(const sim::PlanQuery& query, const TextSink& put)
      : put_(put), fields_(space_fields(query)) {
    for (const sim::StrategyField* field : fields_) fmt::format_to(out(), "{},", field->key);
    fmt::format_to(out(), "recompute,feasible,step_time_s,peak_bytes,needed_bytes\n");
  }

  // What says nothing is left empty: shards over all ranks, the schedule of a single stage.
  void add(const sim::PricedStrategy& one) {
    for (const sim::StrategyField* field : fields_) {
      const bool stated = sim::is_stated(*field, one.strategy);
      if (const auto value = stated ? field->get(one.strategy) : std::nullopt)
        cli::put(text_, *value);
      else
        text_.push_back(',');
    }
    fmt::format_to(out(), FMT_COMPILE("{},"), sim::text_of(one.strategy.recompute));
    if (one.fits)
      fmt::format_to(out(), FMT_COMPILE("yes,{}"), one.step_time.value());
    else
      fmt::format_to(out(), FMT_COMPILE("no,"));
    fmt::format_to(out(), FMT_COMPILE(",{},{}\n"), whole(one.peak), whole(one.needed));
    ++all_, fitting_ += one.fits;
    if (text_.size() > kBytesAtOnce) put_text();
  }

  void put_text() {
    put_(std::string_view(text_.data(), text_.size()));
    text_.clear();
  }

  std::size_t all() const { return all_; }
  std::size_t fitting() const { return fitting_; }

 private:
  static constexpr std::size_t kBytesAtOnce = 1 << 20;

  std::back_insert_iterator<fmt::memory_buffer> out() { return std::back_inserter(text_); }

  const TextSink& put_;
  std::vector<const sim::StrategyField*> fields_;
  fmt::memory_buffer text_;
  std::size_t all_ = 0, fitting_ = 0;
};

}  // namespace

void write_space(const sim::PlanQuery& query, const std::string& path, Part part,
                 const std::string& question) {
  const Interruption interruption;
  ProgressLine line("pricing group");
  sim::PlanQuery watched = query;
  watched.progress = [&](std::size_t done, std::size_t all) {
    line.tell(done, all);
    return !interruption.came();
  };
  const auto groups = [part](std::size_t all_groups) {
    const PartRange range = range_of(part, all_groups);
    return std::pair(range.first, range.last);
  };
  std::size_t all = 0, fitting = 0;
  write_file(
      [&](const TextSink& put) {
        put(first_mark(part, question));
        SpaceRows rows(query, put);
        const bool complete = sim::price_space(
            watched, [&](const sim::PricedStrategy& one) { rows.add(one); }, groups);
        if (!complete) throw Error("--space = " + path + ": interrupted, nothing was written");
        rows.put_text();
        put(last_mark(part));
        all = rows.all(), fitting = rows.fitting();
      },
      path);
  std::cerr << fmt::format("{}: {} strategies, of which {} fit\n", path, all, fitting);
}

}  // namespace llmsim::cli
