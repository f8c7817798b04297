#include "reports/table_page.h"

#include "reports/sheet.h"

namespace llmsim::reports {
namespace {

constexpr const char* kStyle =
    ":root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }\n"
    "body { margin: 2rem; }\n"
    "table { border-collapse: collapse; margin-top: 1.5rem; }\n"
    "caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }\n"
    "th, td { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid #8886; }\n"
    ".right { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "p { margin: .2rem .8rem; font-size: .85rem; opacity: .8; }\n";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\n': out += "<br>"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_row(const Sheet& sheet, const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string attributes = sheet.right_aligned[c] ? " class=\"right\"" : "";
    row += "<" + std::string(tag) + attributes + ">" + escaped(cells[c]) + "</" + tag + ">";
  }
  return row + "</tr>\n";
}

std::string html_table(const Table& table) {
  const Sheet sheet = sheet_of(table);
  std::string out = "<table>\n";
  if (!table.title().empty()) out += "<caption>" + escaped(table.title()) + "</caption>\n";
  out += "<thead>\n" + html_row(sheet, sheet.headers, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : sheet.rows) out += html_row(sheet, row, "td");
  out += "</tbody>\n</table>\n";
  for (const std::string& note : table.notes()) out += "<p>" + escaped(note) + "</p>\n";
  return out;
}

}  // namespace

std::string table_page(const std::string& title, std::span<const Table> tables) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" +
      escaped(title) + "</title>\n<style>\n" + kStyle + "</style>\n</head>\n<body>\n";
  for (const Table& table : tables) out += html_table(table);
  return out + "</body>\n</html>\n";
}

}  // namespace llmsim::reports
