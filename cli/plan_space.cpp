#include "cli/plan_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/interruption.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using reports::Cell;

// Those of a search, in the order of the fields of a strategy, and what follows from a choice of
// layers.
std::vector<const sim::StrategyField*> space_fields() {
  constexpr std::array<std::string_view, 2> kFollowing{"etp", "stage_layers"};
  const auto is_one_of = [](const auto& keys, std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  std::vector<const sim::StrategyField*> fields;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    if (is_one_of(sim::kSearchedFields, field.key) || is_one_of(sim::kDerivedFields, field.key) ||
        is_one_of(kFollowing, field.key))
      fields.push_back(&field);
  }
  return fields;
}

// The rows of some thousand strategies at a time.
class SpaceRows {
 public:
  explicit SpaceRows(const TextSink& put) : put_(put), fields_(space_fields()) {}

  void add(const sim::PricedStrategy& one) {
    std::vector<Cell> cells;
    for (const sim::StrategyField* field : fields_) {
      const std::optional<sim::FieldValue> value = field->get(one.strategy);
      cells.push_back(value ? Cell(sim::text_of(*value)) : Cell());
    }
    cells.emplace_back(sim::text_of(one.strategy.recompute));
    cells.emplace_back(std::string(one.fits ? "yes" : "no"));
    cells.push_back(one.fits ? Cell(one.step_time) : Cell());
    cells.emplace_back(one.peak);
    cells.emplace_back(one.needed);
    table_.add_row(std::move(cells));
    ++all_, fitting_ += one.fits;
    if (table_.rows().size() == kRowsAtOnce) put_rows();
  }

  void put_rows() {
    std::string text = reports::render(table_, reports::Format::Csv);
    put_(std::exchange(has_header_, true) ? std::string_view(text).substr(text.find('\n') + 1)
                                          : std::string_view(text));
    table_ = reports::Table("", columns());
  }

  std::size_t all() const { return all_; }
  std::size_t fitting() const { return fitting_; }

 private:
  static constexpr std::size_t kRowsAtOnce = 4096;

  std::vector<reports::Column> columns() const {
    std::vector<reports::Column> columns;
    for (const sim::StrategyField* field : fields_)
      columns.push_back({.key = std::string(field->key), .header = {}});
    columns.push_back({.key = "recompute", .header = {}});
    columns.push_back({.key = "feasible", .header = {}});
    columns.push_back({.key = "step_time_s", .header = {}, .kind = reports::Kind::Seconds});
    columns.push_back({.key = "peak_bytes", .header = {}, .kind = reports::Kind::Bytes});
    columns.push_back({.key = "needed_bytes", .header = {}, .kind = reports::Kind::Bytes});
    return columns;
  }

  const TextSink& put_;
  std::vector<const sim::StrategyField*> fields_;
  reports::Table table_{"", columns()};
  bool has_header_ = false;
  std::size_t all_ = 0, fitting_ = 0;
};

}  // namespace

void write_space(const sim::PlanQuery& query, const std::string& path) {
  const Interruption interruption;
  ProgressLine line("pricing group");
  sim::PlanQuery told = query;
  told.progress = [&](std::size_t done, std::size_t all) {
    line.tell(done, all);
    return !interruption.came();
  };
  std::size_t all = 0, fitting = 0;
  write_file(
      [&](const TextSink& put) {
        SpaceRows rows(put);
        const bool complete =
            sim::price_space(told, [&](const sim::PricedStrategy& one) { rows.add(one); });
        if (!complete) throw Error("--space = " + path + ": interrupted, nothing was written");
        rows.put_rows();
        all = rows.all(), fitting = rows.fitting();
      },
      path);
  std::cerr << fmt::format("{}: {} strategies, of which {} fit\n", path, all, fitting);
}

}  // namespace llmsim::cli
