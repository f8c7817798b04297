#include "reports/page/page.h"

#include <cassert>
#include <string_view>

#include "reports/json.h"
#include "reports/page/page_files.h"

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

// As RFC 4648 has it.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](std::size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
  };
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const unsigned three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (const int shift : {18, 12, 6, 0}) text += kAlphabet[three >> shift & 63u];
  }
  const std::size_t missing = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - missing, missing, missing, '=');
}

// The elements of an interactive page that planner.js reads.
std::string planner_elements(const PageQuestion& question) {
  const Json json{{"arguments", question.arguments}, {"rows", Json::parse(question.rows)}};
  return "<script id=\"question\" type=\"application/json\">" + embedded(json) +
         "</script>\n<script id=\"planner\" type=\"text/plain\">" + base64(page_planner()) +
         "</script>\n";
}

std::string page_of(const Json& json, const std::string& planner = "") {
  std::string page;
  std::string_view frame = page_frame();
  frame = fill(frame, "{{style}}", page_style(), page);
  frame = fill(frame, "{{data}}", embedded(json), page);
  frame = fill(frame, "{{planner}}", planner, page);
  frame = fill(frame, "{{script}}", page_script(), page);
  page += frame;
  return page;
}

}  // namespace

bool has_page_planner() { return !page_planner().empty(); }

std::string page(const PlanAnswer& answer) { return page_of(plan_json(answer)); }

std::string page(const PlanAnswer& answer, const PageQuestion& question) {
  return page_of(plan_json(answer), planner_elements(question));
}

std::string page(const PlanComparison& comparison) { return page_of(comparison_json(comparison)); }

std::string page(const calibrate::Backtest& backtest) { return page_of(backtest_json(backtest)); }

std::string page(const sim::Prediction& prediction, const Provenance& provenance,
                 const PredictionExtras& extras) {
  return page_of(prediction_json(prediction, provenance, extras));
}

}  // namespace llmsim::reports
