#include "hwdb/store/database_check.h"

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "hwdb/store/database.h"
#include "hwdb/store/page_checksum.h"
#include "hwdb/store/sqlite.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using sqlite::Connection;
using sqlite::Statement;

struct CheckedTable {
  const char* name;
  const char* key;    // that names a record
  const char* texts;  // its columns that hold JSON
};

constexpr CheckedTable kTables[] = {
    {"meta", "key", ""},
    {"accelerators", "id", "record"},
    {"systems", "id", "record"},
    {"aliases", "alias", ""},
    {"networks", "name", "record"},
    {"measurements", "subject || ' of ' || accelerator || ' (' || id || ')'", "record"},
    {"curves", "measurement", "columns || ',' || points"},
    {"coefficients", "scope || ' ' || id || ' ' || key", ""}};

// Counts the records of a table, and says which cannot be read.
void check_records(const Connection& connection, const CheckedTable& table, DatabaseCheck& check) {
  std::string last;
  const std::string name = table.name, texts = table.texts;
  try {
    Statement rows(connection, std::string("SELECT ") + table.key + ", " +
                                   (texts.empty() ? "''" : texts) + ", * FROM " + name);
    while (rows.step()) {
      last = rows.text(0);
      ++check.records;
      if (!texts.empty() && !nlohmann::json::accept("[" + rows.text(1) + "]"))
        check.damages.push_back(name + ": " + last + " is no JSON");
    }
  } catch (const Error&) {
    check.damages.push_back(name + ": cannot be read " +
                            (last.empty() ? "from its first record on" : "after " + last));
  }
}

void check_integrity(const Connection& connection, DatabaseCheck& check) {
  try {
    Statement answers(connection, "PRAGMA integrity_check");
    while (answers.step()) {
      const std::string answer = answers.text(0);
      // SQLite 3.40 says it of columns that are not null, in tables without rowid.
      const bool is_known = answer == "ok" || answer.starts_with("NULL value in ");
      if (!is_known) check.damages.push_back("SQLite: " + answer);
    }
  } catch (const Error& error) {
    check.damages.push_back(error.what());
  }
}

}  // namespace

DatabaseCheck check_database(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw Error("database " + path +
                ": there is none yet; the first command that reads it makes it");
  DatabaseCheck check;
  std::optional<std::string> refusal;
  try {
    const Database database(path);
  } catch (const sqlite::Damaged& error) {
    refusal = error.what();
  }
  const std::vector<std::int64_t> pages = damaged_pages(path);
  for (const std::int64_t page : pages)
    check.damages.push_back("page " + std::to_string(page) + " is not as it was written");
  try {
    const Connection connection(path, sqlite::Open::ReadOnly);
    for (const CheckedTable& table : kTables) check_records(connection, table, check);
    if (pages.empty()) check_integrity(connection, check);
  } catch (const sqlite::Damaged&) {
  }
  if (refusal && check.damages.empty()) check.damages.push_back(*refusal);
  return check;
}

}  // namespace llmsim::hwdb
