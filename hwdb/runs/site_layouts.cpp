#include "hwdb/runs/site_layouts.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace llmsim::hwdb {
namespace {

constexpr std::string_view kLayoutPrefix = "layout/", kErrorsPrefix = "errors.",
                           kLog2Prefix = "log2.", kSquare = "M.", kInCell = "b.", kInNone = "b";
constexpr std::size_t kMostLayouts = 10000;  // layouts

std::string key_of(std::size_t i, std::string_view of) {
  return std::string(kLayoutPrefix) + std::to_string(i) + "/" + std::string(of);
}

std::optional<std::size_t> index_in(std::string_view text) {
  std::size_t place = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, place);
  if (read.ec != std::errc() || read.ptr != end || place >= kMostLayouts) return std::nullopt;
  return place;
}

// Of a list that grows to it.
template <class Value>
Value& grown(std::vector<Value>& list, std::size_t i) {
  if (list.size() <= i) list.resize(i + 1);
  return list[i];
}

void put_layout(std::size_t i, std::string_view of, double value, SiteLayouts& layouts) {
  sim::LayoutPoint& point = grown(layouts.points, i);
  if (of.starts_with(kLog2Prefix)) {
    for (std::size_t k = 0; k < sim::kLayoutAxes; ++k)
      if (of.substr(kLog2Prefix.size()) == name_of(static_cast<sim::LayoutAxis>(k)))
        point.log2[k] = value;
  } else if (of.starts_with(kSquare)) {
    if (const auto j = index_in(of.substr(kSquare.size())))
      grown(grown(layouts.squares, i), *j) = value;
  } else if (of == kInNone || of.starts_with(kInCell)) {
    const std::string cell(of == kInNone ? "" : of.substr(kInCell.size()));
    grown(layouts.in_cell[cell], i) = value;
  } else if (const std::size_t middle = of.find('/'); middle != std::string_view::npos) {
    const auto recompute = sim::named<sim::RecomputeKind>(std::string(of.substr(0, middle)));
    const auto sharding = sim::named<sim::Sharding>(std::string(of.substr(middle + 1)));
    if (!recompute || !sharding) return;
    point.recompute = *recompute, point.sharding = *sharding;
    grown(layouts.weights, i) = value;
  }
}

}  // namespace

double SiteLayouts::mean(const sim::LayoutPoint& x) const {
  double sum = 0.0;
  for (std::size_t i = 0; i < points.size(); ++i)
    sum += weights[i] * errors.covariance(x, points[i]);
  return sum;
}

double SiteLayouts::variance(const sim::LayoutPoint& x, const std::string& cell) const {
  const auto shared = in_cell.find(cell);
  std::vector<double> k;
  for (const sim::LayoutPoint& point : points) k.push_back(errors.covariance(x, point));
  double sum = errors.covariance(x, x);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (shared != in_cell.end()) sum += 2.0 * shared->second[i] * k[i];
    for (std::size_t j = 0; j <= i; ++j) sum += (i == j ? 1.0 : 2.0) * squares[i][j] * k[i] * k[j];
  }
  return sum;
}

sim::LayoutPoint layout_of(const sim::Run& run) {
  return sim::layout_point(run.model, run.strategy, run.cluster.num_devices);
}

std::vector<SiteLayoutNumber> numbers_of(const SiteLayouts& layouts) {
  std::vector<SiteLayoutNumber> numbers;
  if (layouts.points.empty()) return numbers;
  sim::LayoutErrors errors = layouts.errors;
  for (std::size_t k = 0; k < sim::kLayoutNumbers; ++k)
    numbers.push_back({std::string(kLayoutPrefix) + std::string(kErrorsPrefix) + sim::layout_key(k),
                       sim::layout_number(errors, k)});
  const auto add = [&](std::size_t i, const std::string& of, double value) {
    numbers.push_back({key_of(i, of), value});
  };
  for (std::size_t i = 0; i < layouts.points.size(); ++i) {
    const sim::LayoutPoint& point = layouts.points[i];
    for (std::size_t k = 0; k < sim::kLayoutAxes; ++k)
      add(i, std::string(kLog2Prefix) + name_of(static_cast<sim::LayoutAxis>(k)), point.log2[k]);
    add(i, std::string(name_of(point.recompute)) + "/" + name_of(point.sharding),
        layouts.weights[i]);
    for (std::size_t j = 0; j <= i; ++j)
      add(i, std::string(kSquare) + std::to_string(j), layouts.squares[i][j]);
    for (const auto& [cell, shared] : layouts.in_cell)
      add(i, cell.empty() ? std::string(kInNone) : std::string(kInCell) + cell, shared[i]);
  }
  return numbers;
}

void put(const SiteLayoutNumber& number, SiteLayouts& layouts) {
  if (!number.key.starts_with(kLayoutPrefix)) return;
  const std::string_view key = std::string_view(number.key).substr(kLayoutPrefix.size());
  if (key.starts_with(kErrorsPrefix)) {
    for (std::size_t k = 0; k < sim::kLayoutNumbers; ++k)
      if (key.substr(kErrorsPrefix.size()) == sim::layout_key(k))
        sim::layout_number(layouts.errors, k) = number.value;
    return;
  }
  const std::size_t middle = key.find('/');
  const auto i = middle == std::string_view::npos ? std::nullopt : index_in(key.substr(0, middle));
  if (i) put_layout(*i, key.substr(middle + 1), number.value, layouts);
}

void complete(SiteLayouts& layouts) {
  const std::size_t count = layouts.points.size();
  layouts.weights.resize(count);
  layouts.squares.resize(count);
  for (std::size_t i = 0; i < count; ++i) layouts.squares[i].resize(i + 1);
  for (auto& [cell, shared] : layouts.in_cell) shared.resize(count);
}

}  // namespace llmsim::hwdb
