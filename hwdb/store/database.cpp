#include "hwdb/store/database.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "hwdb/store/shipping.h"
#include "hwdb/store/sqlite.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

namespace fs = std::filesystem;
using sqlite::Connection;
using sqlite::Statement;

std::int64_t pragma(const Connection& connection, const std::string& name) {
  Statement query(connection, "PRAGMA " + name);
  query.step();
  return query.integer(0);
}

bool has_tables(const Connection& connection) {
  Statement query(connection, "SELECT 1 FROM sqlite_master LIMIT 1");
  return query.step();
}

// Refuses files that this program must not write to.  True: there is a database of ours, false: an
// empty file.
bool is_ours(const Connection& connection) {
  const std::int64_t application = pragma(connection, "application_id");
  const std::int64_t version = pragma(connection, "user_version");
  if (application != kApplicationId) {
    if (!has_tables(connection)) return false;
    throw Error("database " + connection.path() +
                ": belongs to another program; name another file with --db");
  }
  if (version > kSchemaVersion) {
    throw Error("database " + connection.path() + ": schema " + std::to_string(version) +
                " was written by a newer llmsim (this one knows " + std::to_string(kSchemaVersion) +
                "); use that one, or name another file with --db");
  }
  return true;
}

// Brings the file up to this program's facts.  Another process may have done so while this one
// waited for the lock.
void update(const Connection& connection) {
  if (is_ours(connection)) make_place_for_checksums(connection);
  sqlite::Transaction transaction(connection);
  if (!is_ours(connection) || !is_current(connection)) ship(connection);
  transaction.commit();
}

std::unique_ptr<Connection> in_memory() {
  auto connection = std::make_unique<Connection>(":memory:", sqlite::Open::Create);
  update(*connection);
  return connection;
}

// The file as it is, if it needs no writing; none if it does.
std::unique_ptr<Connection> existing(const std::string& path) {
  auto connection = std::make_unique<Connection>(path, sqlite::Open::ReadOnly);
  if (!is_ours(*connection) || !is_current(*connection)) return nullptr;
  return connection;
}

std::unique_ptr<Connection> writable(const std::string& path) {
  auto connection = std::make_unique<Connection>(path, sqlite::Open::Create);
  if (!is_ours(*connection) || !is_current(*connection)) update(*connection);
  return connection;
}

// Whether the file and, for SQLite's journal, its folder can be written, as far as permissions
// tell.
bool may_write(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code ignored;
  const auto allowed = [](const char* name) {
    return faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0;
  };
  return allowed(folder.c_str()) && (!fs::exists(path, ignored) || allowed(path.c_str()));
}

// $XDG_DATA_HOME/llmsim/llmsim.db, or below the home directory; none where neither is set.
std::optional<fs::path> default_path() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && *data == '/') return fs::path(data) / "llmsim" / "llmsim.db";
  const char* home = std::getenv("HOME");
  if (home && *home) return fs::path(home) / ".local" / "share" / "llmsim" / "llmsim.db";
  return std::nullopt;
}

void create_default_folder(const std::string& path) {
  if (default_path() != fs::path(path)) return;
  std::error_code ignored;  // a missing folder shows as a file that cannot be opened
  fs::create_directories(fs::path(path).parent_path(), ignored);
}

void require_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status))
    throw Error("database " + path + ": is a directory; give the path of a file");
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Error("database " + path + ": is a device or pipe; give the path of a file");
}

// The file, for reading and where possible for writing.
std::unique_ptr<Connection> opened(const std::string& path, Access wanted) {
  if (path == ":memory:") return in_memory();
  require_file(path);
  create_default_folder(path);
  std::error_code ignored;
  const bool writes = may_write(path);
  if (writes || (wanted == Access::Read && !fs::exists(path, ignored))) return writable(path);
  if (wanted == Access::Write)
    throw Error("database " + path +
                ": cannot be written; make it writable or name another file with --db");
  if (auto connection = existing(path)) return connection;
  throw sqlite::CannotOpen("database " + path +
                           ": holds the facts of another llmsim and cannot be written; make it "
                           "writable or name another with --db");
}

// The default file; where there can be none, the shipped facts and a warning.
std::unique_ptr<Connection> default_or_shipped() {
  const std::optional<fs::path> path = default_path();
  std::string reason = "neither XDG_DATA_HOME nor HOME is set";
  if (path) {
    try {
      return opened(path->string(), Access::Read);
    } catch (const sqlite::CannotOpen& error) {
      reason = error.what();
    }
  }
  std::fprintf(
      stderr,
      "llmsim: warning: %s; using the shipped facts only (name a writable file with --db)\n",
      reason.c_str());
  return in_memory();
}

// What measurement_row() reads.
constexpr const char* kSelectMeasurements =
    "SELECT m.id, subject, accelerator, evidence, source, origin, record, columns, points "
    "FROM measurements m LEFT JOIN curves c ON c.measurement = m.id ";

const char* table_of(HardwareKind kind) {
  return kind == HardwareKind::System ? "systems" : "accelerators";
}
const char* word_of(HardwareKind kind) {
  return kind == HardwareKind::System ? "system" : "accelerator";
}

Origin origin_named(const std::string& name) {
  return name == "user" ? Origin::User : Origin::Shipped;
}

HardwareRow hardware_row(const Statement& row) {
  return {row.text(0), row.text(1), origin_named(row.text(2)), row.text(3)};
}

Coefficient coefficient_row(const Statement& row) {
  return {row.text(0),
          row.text(1),
          row.text(2),
          row.number(3),
          row.optional_number(4),
          evidence_named(row.text(5)).value_or(sim::Evidence::Assumed),
          row.text(6),
          row.text(7),
          origin_named(row.text(8))};
}

Measurement measurement_row(const Statement& row) {
  return {row.integer(0), row.text(1),
          row.text(2),    evidence_named(row.text(3)).value_or(sim::Evidence::Assumed),
          row.text(4),    origin_named(row.text(5)),
          row.text(6),    row.text(7),
          row.text(8)};
}

void forget_aliases(sqlite::Connection& connection, HardwareKind kind, const std::string& id) {
  Statement(connection, "DELETE FROM aliases WHERE kind = ? AND id = ? AND origin = 'user'")
      .bind(word_of(kind))
      .bind(id)
      .run();
}

}  // namespace

std::optional<std::string> known_default_database_path() {
  const std::optional<fs::path> path = default_path();
  return path ? std::optional(path->string()) : std::nullopt;
}

std::string default_database_path() {
  if (const std::optional<std::string> path = known_default_database_path()) return *path;
  throw Error("neither XDG_DATA_HOME nor HOME is set: name the database with --db PATH");
}

std::string_view name_of(Origin origin) { return origin == Origin::Shipped ? "shipped" : "user"; }

struct Database::Impl {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<sqlite::Transaction> transaction;
};

Database::Database(std::string path, Access access) : impl_(std::make_unique<Impl>()) {
  impl_->connection = opened(path, access);
}

Database::Database() : impl_(std::make_unique<Impl>()) { impl_->connection = default_or_shipped(); }

Database::~Database() = default;
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;

const std::string& Database::path() const { return impl_->connection->path(); }

std::string Database::version() const {
  Statement query(*impl_->connection,
                  "SELECT (SELECT value FROM meta WHERE key = 'facts_compiled'), (SELECT value "
                  "FROM meta WHERE key = 'facts_hash')");
  query.step();
  return "facts of " + query.text(0) + " (" + query.text(1).substr(0, 12) + ")";
}

std::optional<HardwareRow> Database::find(HardwareKind kind, std::string_view id_or_alias) const {
  const std::string name = folded(id_or_alias);
  Statement alias(
      *impl_->connection,
      "SELECT id FROM aliases WHERE kind = ? AND alias = ? ORDER BY origin DESC LIMIT 1");
  alias.bind(word_of(kind)).bind(name);
  const std::string id = alias.step() ? alias.text(0) : name;
  Statement row(*impl_->connection, std::string("SELECT id, name, origin, record FROM ") +
                                        table_of(kind) +
                                        " WHERE id = ? ORDER BY origin DESC LIMIT 1");
  row.bind(id);
  if (!row.step()) return std::nullopt;
  return hardware_row(row);
}

HardwareRow Database::get(HardwareKind kind, std::string_view id_or_alias) const {
  if (std::optional<HardwareRow> row = find(kind, id_or_alias)) return *row;
  for (const HardwareKind other : {HardwareKind::Accelerator, HardwareKind::System})
    if (other != kind && find(other, id_or_alias))
      throw Error("'" + std::string(id_or_alias) + "' is " +
                  (other == HardwareKind::System ? "a system (--system), no "
                                                 : "an accelerator (--hardware), no ") +
                  word_of(kind));
  throw Error(std::string("unknown ") + word_of(kind) + " '" + std::string(id_or_alias) + "'" +
              did_you_mean(folded(id_or_alias), names(kind)) +
              "; 'llmsim hardware list' shows all");
}

std::vector<HardwareRow> Database::list(HardwareKind kind) const {
  Statement query(*impl_->connection, std::string("SELECT id, name, origin, record FROM ") +
                                          table_of(kind) + " ORDER BY id, origin DESC");
  std::vector<HardwareRow> rows;
  while (query.step()) {
    HardwareRow row = hardware_row(query);
    if (rows.empty() || rows.back().id != row.id) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> Database::names(HardwareKind kind) const {
  Statement query(*impl_->connection,
                  std::string("SELECT id FROM ") + table_of(kind) +
                      " UNION SELECT alias FROM aliases WHERE kind = ? ORDER BY 1");
  query.bind(word_of(kind));
  std::vector<std::string> names;
  while (query.step()) names.push_back(query.text(0));
  return names;
}

std::vector<std::string> Database::aliases(HardwareKind kind, const std::string& id) const {
  Statement query(*impl_->connection,
                  "SELECT DISTINCT alias FROM aliases WHERE kind = ? AND id = ? ORDER BY alias");
  query.bind(word_of(kind)).bind(id);
  std::vector<std::string> aliases;
  while (query.step()) aliases.push_back(query.text(0));
  return aliases;
}

std::vector<Coefficient> Database::coefficients(std::string_view scope, std::string_view id) const {
  Statement query(*impl_->connection,
                  "SELECT scope, id, key, value, standard_error, evidence, source, fitted_from, "
                  "origin FROM coefficients "
                  "WHERE scope = ? AND id = ? ORDER BY key, origin DESC");
  query.bind(scope).bind(id);
  std::vector<Coefficient> rows;
  while (query.step()) {
    Coefficient row = coefficient_row(query);
    if (rows.empty() || rows.back().key != row.key) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> Database::coefficient_ids(std::string_view scope) const {
  Statement query(*impl_->connection,
                  "SELECT DISTINCT id FROM coefficients WHERE scope = ? ORDER BY id");
  query.bind(scope);
  std::vector<std::string> ids;
  while (query.step()) ids.push_back(query.text(0));
  return ids;
}

std::vector<Measurement> Database::measurements(std::string_view subject,
                                                std::string_view accelerator) const {
  Statement query(*impl_->connection, std::string(kSelectMeasurements) +
                                          "WHERE subject = ? AND accelerator = ? ORDER BY m.id");
  query.bind(subject).bind(accelerator);
  std::vector<Measurement> rows;
  while (query.step()) rows.push_back(measurement_row(query));
  return rows;
}

std::vector<Measurement> Database::measurements(std::string_view subject) const {
  Statement query(*impl_->connection,
                  std::string(kSelectMeasurements) + "WHERE subject = ? ORDER BY m.id");
  query.bind(subject);
  std::vector<Measurement> rows;
  while (query.step()) rows.push_back(measurement_row(query));
  return rows;
}

std::int64_t Database::count(const std::string& table, Origin origin) const {
  Statement query(*impl_->connection, "SELECT count(*) FROM " + table + " WHERE origin = ?");
  query.bind(name_of(origin)).step();
  return query.integer(0);
}

void Database::require_writable() const {
  if (impl_->connection->read_only())
    throw Error("database " + path() + ": is read-only; name another file with --db");
}

void Database::put_hardware(HardwareKind kind, const std::string& record) {
  require_writable();
  const nlohmann::json parsed = nlohmann::json::parse(record);
  forget_aliases(*impl_->connection, kind, parsed.at("id"));
  insert_hardware(*impl_->connection, kind, parsed, Origin::User);
}

void Database::put(const Coefficient& coefficient) {
  require_writable();
  insert_coefficient(*impl_->connection, coefficient);
}

void Database::put(const Measurement& measurement) {
  require_writable();
  insert_measurement(*impl_->connection, measurement);
}

void Database::forget_fit(std::string_view fit) {
  require_writable();
  Statement(*impl_->connection, "DELETE FROM coefficients WHERE instr(fitted_from, ?) = 1")
      .bind(fit)
      .run();
}

void Database::forget_hardware(HardwareKind kind, const std::string& id) {
  require_writable();
  forget_aliases(*impl_->connection, kind, id);
  Statement(*impl_->connection,
            std::string("DELETE FROM ") + table_of(kind) + " WHERE id = ? AND origin = 'user'")
      .bind(id)
      .run();
  forget(kind == HardwareKind::Accelerator ? "device" : "system", id);
}

void Database::forget(std::string_view scope, std::string_view id) {
  require_writable();
  Statement(*impl_->connection,
            "DELETE FROM coefficients WHERE scope = ? AND id = ? AND origin = 'user'")
      .bind(scope)
      .bind(id)
      .run();
}

void Database::begin() {
  require_writable();
  impl_->transaction = std::make_unique<sqlite::Transaction>(*impl_->connection);
}

void Database::commit() {
  impl_->transaction->commit();
  impl_->transaction.reset();
}

void Database::rollback() noexcept { impl_->transaction.reset(); }

}  // namespace llmsim::hwdb
