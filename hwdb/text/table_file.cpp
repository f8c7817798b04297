#include "hwdb/text/table_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "hwdb/text/input_file.h"
#include "hwdb/text/read_budget.h"
#include "hwdb/text/spelling.h"
#include "hwdb/text/toml.h"
#include "sim/base/field.h"

namespace llmsim::hwdb {
namespace {

using Texts = std::vector<std::string>;

constexpr std::size_t kMostLines = 1000;  // rows or columns

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

std::string place(const std::string& file, int line) {
  return file + ": line " + std::to_string(line) + ": ";
}

// "2024-10-14".
std::string day_text(const toml::date& day) {
  std::ostringstream text;
  text << day;
  return text.str();
}

// One level of a table file, whose keys are taken one after the other.
class Section {
 public:
  Section(const toml::table& table, const std::string& file, std::string name)
      : table_(table), file_(file), name_(std::move(name)) {}

  const toml::node* any(const char* key) {
    known_.insert(key);
    return table_.get(key);
  }

  std::optional<std::string> text(const char* key) {
    const toml::node* const node = any(key);
    if (!node) return std::nullopt;
    const auto text = node->value_exact<std::string>();
    const auto breaks = [](unsigned char c) { return c < ' '; };
    if (!text || text->empty() || std::any_of(text->begin(), text->end(), breaks))
      refuse(*node, key, "a text in one line");
    return text;
  }

  bool is_on(const char* key) {
    const toml::node* const node = any(key);
    if (!node) return false;
    const auto on = node->value_exact<bool>();
    if (!on) refuse(*node, key, "true or false");
    return *on;
  }

  // A text, or a list of them.
  Texts texts(const char* key) {
    const toml::node* const node = any(key);
    if (!node) return {};
    const toml::array* const list = node->as_array();
    if (!list) return {*text(key)};
    Texts texts;
    for (const toml::node& item : *list) {
      texts.push_back(item.value_exact<std::string>().value_or(""));
      if (texts.back().empty()) refuse(item, key, "a text, or a list of texts,");
    }
    return texts;
  }

  // The tables under [[key]].
  std::vector<const toml::table*> tables(const char* key) {
    const toml::node* const node = any(key);
    if (!node) return {};
    const toml::array* const list = node->as_array();
    std::vector<const toml::table*> tables;
    for (std::size_t i = 0; list && i < list->size(); ++i) tables.push_back((*list)[i].as_table());
    const bool right = list && std::find(tables.begin(), tables.end(), nullptr) == tables.end();
    if (!right) refuse(*node, key, std::string("[[") + key + "]] for each");
    if (tables.size() > kMostLines)
      refuse(*node, key, "at most " + std::to_string(kMostLines) + " tables");
    return tables;
  }

  // All that has not been taken.
  TableOptions options() const {
    TableOptions options;
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (known_.contains(name)) continue;
      std::string dashed = name;
      std::replace(dashed.begin(), dashed.end(), '_', '-');
      options.push_back({dashed, value_text(node, name), line_of(node)});
    }
    return options;
  }

  void finish() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (known_.contains(name)) continue;
      throw UnknownKey(place(file_, line_of(node)) + "unknown key " + shown(name) +
                       did_you_mean(name, {known_.begin(), known_.end()}));
    }
  }

  [[noreturn]] void refuse(const toml::node& node, const std::string& key,
                           const std::string& right) const {
    throw Error(place(file_, line_of(node)) + name_ + key + ": " + right + " is expected");
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& right) const {
    refuse(table_, key, right);
  }

 private:
  // A key can hold any text: one line of it is enough.
  static std::string shown(const std::string& key) {
    std::string text = key.substr(0, 60);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return text;
  }

  std::string value_text(const toml::node& node, const std::string& key) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto on = node.value_exact<bool>()) return *on ? "true" : "false";
    if (const auto count = node.value_exact<std::int64_t>()) return std::to_string(*count);
    if (const auto number = node.value_exact<double>())
      return sim::text_of(sim::FieldValue(*number));
    if (const auto day = node.value_exact<toml::date>()) return day_text(*day);
    const toml::array* const list = node.as_array();
    if (!list || list->empty()) refuse(node, shown(key), "a text, a number, a switch or a list");
    std::string joined;
    for (const toml::node& item : *list) {
      if (item.as_array()) refuse(item, shown(key), "a list of texts or numbers");
      joined += (joined.empty() ? "" : ",") + value_text(item, key);
    }
    return joined;
  }

  const toml::table& table_;
  const std::string& file_;
  std::string name_;  // "rows."
  std::set<std::string> known_;
};

void append(const TableOptions& more, TableOptions& options) {
  options.insert(options.end(), more.begin(), more.end());
}

std::optional<std::size_t> find_label(const std::vector<TableLine>& lines,
                                      const std::string& label) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const TableLine& line) { return line.label == label; });
  if (found == lines.end()) return std::nullopt;
  return static_cast<std::size_t>(found - lines.begin());
}

TableLine read_line(const toml::table& table, const std::string& file, const char* key,
                    const std::vector<TableLine>& above) {
  Section section(table, file, std::string(key) + ".");
  const auto label = section.text("label"), plus = section.text("plus");
  if (label.has_value() == plus.has_value()) section.refuse("label", "either label or plus");
  if (label && label->starts_with("+"))
    section.refuse("label", "plus = \"...\", which has the options of the one above too,");
  if (plus && above.empty()) section.refuse("plus", "one above it");
  TableLine line{.label = label ? *label : "+ " + *plus, .options = {}};
  if (plus) line.options = above.back().options;
  append(section.options(), line.options);
  if (find_label(above, line.label)) section.refuse("label", "a label of its own");
  return line;
}

std::vector<TableLine> read_lines(Section& document, const std::string& file, const char* key) {
  std::vector<TableLine> lines;
  for (const toml::table* table : document.tables(key))
    lines.push_back(read_line(*table, file, key, lines));
  if (lines.empty()) document.refuse(key, std::string("[[") + key + "]]");
  return lines;
}

std::size_t place_in(const std::vector<TableLine>& lines, const char* key, Section& section) {
  Texts labels;
  for (const TableLine& line : lines) labels.push_back(line.label);
  const std::string label = section.text(key).value_or("");
  const auto found = find_label(lines, label);
  const std::string near = did_you_mean(label, labels);
  if (!found)
    section.refuse(key, "the label of a " + std::string(key) + near + (near.empty() ? "" : ","));
  return *found;
}

TableCell read_cell(const toml::table& table, const TableFile& file) {
  Section section(table, file.file, "cells.");
  TableCell cell;
  cell.row = place_in(file.rows, "row", section);
  cell.column = place_in(file.columns, "column", section);
  cell.run = section.text("run");
  cell.options = section.options();
  if (cell.run && !cell.options.empty()) section.refuse("run", "a run or options, not both,");
  for (const TableCell& other : file.cells) {
    if (other.row == cell.row && other.column == cell.column)
      section.refuse("row", "one of [[cells]] for each row and column");
  }
  return cell;
}

TableOptions read_common(Section& document, const std::string& file) {
  const toml::node* const common = document.any("common");
  if (!common) return {};
  if (!common->as_table()) document.refuse(*common, "common", "[common]");
  return Section(*common->as_table(), file, "common.").options();
}

// Paths beside the table file.
Texts beside(const std::string& file, const Texts& paths) {
  Texts found;
  for (const std::string& path : paths)
    found.push_back((std::filesystem::path(file).parent_path() / path).string());
  return found;
}

TableFile read_document(const toml::table& table, const std::string& name) {
  TableFile file{.file = name,
                 .title = {},
                 .notes = {},
                 .values = {},
                 .convention = {},
                 .runs = {},
                 .common = {},
                 .rows = {},
                 .columns = {},
                 .cells = {}};
  Section document(table, name, "");
  file.title = document.text("title").value_or("");
  file.notes = document.texts("note");
  file.values = document.texts("cell");
  file.convention = document.text("convention");
  file.interval = document.is_on("interval");
  file.plan = document.is_on("plan");
  file.runs = beside(name, document.texts("runs"));
  file.common = read_common(document, name);
  const auto cells = document.tables("cells");
  for (const char* key : {"rows", "columns"}) document.any(key);
  document.finish();  // a misspelt "rows" is told as that
  file.rows = read_lines(document, name, "rows");
  file.columns = read_lines(document, name, "columns");
  if (file.title.empty()) document.refuse("title", "the title of the table");
  for (const toml::table* cell : cells) file.cells.push_back(read_cell(*cell, file));
  return file;
}

}  // namespace

TableFile parse_table_file(const std::string& text, const std::string& file) {
  constexpr std::size_t kMostMiBOfTable = 8;  // as nodes of a parser a hundred times that
  if (text.size() > kMostMiBOfTable << 20)
    throw TooLarge(file + ": holds more than " + std::to_string(kMostMiBOfTable) + " MiB");
  try {
    return read_document(parse_toml(text), file);
  } catch (const TooLarge& error) {
    throw TooLarge(file + ": " + error.what());
  } catch (const toml::parse_error& error) {
    std::string reason(error.description());
    std::replace_if(
        reason.begin(), reason.end(), [](unsigned char c) { return c < ' '; }, ' ');
    throw Error(place(file, static_cast<int>(error.source().begin.line)) + reason);
  }
}

TableFile read_table_file(const std::string& path) {
  return parse_table_file(content_of_file(path), path);
}

}  // namespace llmsim::hwdb
