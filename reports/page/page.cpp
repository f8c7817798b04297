#include "reports/page/page.h"

#include <cassert>
#include <string_view>

#include "reports/json.h"
#include "reports/page/page_files.h"
#include "sim/base/error.h"

namespace llmsim::reports {
namespace {

// In one line, without a "<": nothing in it ends the element that holds it, and it is the same JSON.
std::string embedded(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

// Appends the frame up to a placeholder, then what stands in its place; gives what is left.
std::string_view fill(std::string_view frame, std::string_view placeholder, std::string_view text,
                      std::string& page) {
  const std::size_t at = frame.find(placeholder);
  assert(at != std::string_view::npos);
  page += frame.substr(0, at);
  page += text;
  return frame.substr(at + placeholder.size());
}

std::string page_of(const Json& json) {
  if (const auto missing = missing_pages()) throw Error(*missing);
  std::string page;
  std::string_view frame = page_frame();
  frame = fill(frame, "{{libraries_style}}", page_libraries_style(), page);
  frame = fill(frame, "{{style}}", page_style(), page);
  frame = fill(frame, "{{data}}", embedded(json), page);
  frame = fill(frame, "{{licences}}", page_licences(), page);
  frame = fill(frame, "{{libraries}}", page_libraries_script(), page);
  frame = fill(frame, "{{script}}", page_script(), page);
  page += frame;
  return page;
}

}  // namespace

std::optional<std::string> missing_pages() {
  if (!page_libraries_script().empty()) return std::nullopt;
  return "this program was built without pages, whose libraries npm fetches: install npm, then "
         "cmake --preset release -DLLMSIM_PAGE=ON && cmake --build --preset release (--format json "
         "needs none)";
}

std::string page(const PlanAnswer& answer) { return page_of(plan_json(answer)); }

std::string page(const PlanComparison& comparison) { return page_of(comparison_json(comparison)); }

std::string page(const Diagnosis& diagnosis, const Provenance& provenance) {
  return page_of(diagnosis_json(diagnosis, provenance));
}

std::string page(const calibrate::Backtest& backtest) { return page_of(backtest_json(backtest)); }

std::string page(const sim::Prediction& prediction, const Provenance& provenance,
                 const PredictionExtras& extras) {
  return page_of(prediction_json(prediction, provenance, extras));
}

}  // namespace llmsim::reports
