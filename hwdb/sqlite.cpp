#include "hwdb/sqlite.h"

#include <sqlite3.h>

#include <cstring>

namespace llmsim::hwdb::sqlite {
namespace {

constexpr int kBusyMilliseconds = 10000;

int flags_of(Open mode) {
  switch (mode) {
    case Open::Create: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case Open::Existing: return SQLITE_OPEN_READWRITE;
    case Open::ReadOnly: return SQLITE_OPEN_READONLY;
  }
  return SQLITE_OPEN_READONLY;
}

// Whether the code is the file system's fault, and says nothing of what the file holds.
bool says_no_access(int primary) {
  return primary == SQLITE_READONLY || primary == SQLITE_FULL || primary == SQLITE_IOERR ||
         primary == SQLITE_CANTOPEN || primary == SQLITE_PERM;
}

}  // namespace

Connection::Connection(std::string path, Open mode) : path_(std::move(path)) {
  const int code = sqlite3_open_v2(path_.c_str(), &handle_, flags_of(mode), nullptr);
  if (code != SQLITE_OK) {
    const int reason = sqlite3_system_errno(handle_);
    const std::string message = "database " + path_ + ": cannot be opened: " +
                                (reason != 0 ? std::strerror(reason) : sqlite3_errstr(code));
    sqlite3_close(handle_);
    throw CannotOpen(message);
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
}

Connection::~Connection() { sqlite3_close(handle_); }

bool Connection::read_only() const { return sqlite3_db_readonly(handle_, "main") == 1; }

void Connection::execute(const std::string& sql) const {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

void Connection::fail(int code) const {
  const std::string message = "database " + path_ + ": " + sqlite3_errmsg(handle_);
  const int primary = code & 0xff;
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) {
    throw Error(message +
                "; the file was left as it is: move it away and a new one will be created, or name "
                "another with --db");
  }
  if (says_no_access(primary)) throw CannotOpen(message);
  throw Error(message);
}

Statement::Statement(const Connection& connection, std::string_view sql)
    : connection_(&connection) {
  check(sqlite3_prepare_v2(connection.handle(), sql.data(), static_cast<int>(sql.size()),
                           &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::check(int code) const {
  if (code != SQLITE_OK) connection_->fail(code);
}

Statement& Statement::bind(std::string_view text) {
  check(sqlite3_bind_text(statement_, next_++, text.data(), static_cast<int>(text.size()),
                          SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(double number) {
  check(sqlite3_bind_double(statement_, next_++, number));
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  check(sqlite3_bind_int64(statement_, next_++, number));
  return *this;
}

Statement& Statement::bind(std::optional<double> number) {
  return number ? bind(*number) : bind_null();
}

Statement& Statement::bind_null() {
  check(sqlite3_bind_null(statement_, next_++));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_->fail(code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(statement_);
  next_ = 1;
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text
             ? std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
             : std::string();
}

double Statement::number(int column) const { return sqlite3_column_double(statement_, column); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<double> Statement::optional_number(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return number(column);
}

Transaction::Transaction(const Connection& connection) : connection_(&connection) {
  connection.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(connection_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_->execute("COMMIT");
  open_ = false;
}

}  // namespace llmsim::hwdb::sqlite
