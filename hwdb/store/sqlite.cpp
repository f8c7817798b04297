#include "hwdb/store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "hwdb/store/page_checksum.h"

namespace llmsim::hwdb::sqlite {
namespace {

constexpr int kBusyMilliseconds = 10000;

int flags_of(Open mode) {
  switch (mode) {
    case Open::Create: return SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
    case Open::Existing: return SQLite::OPEN_READWRITE;
    case Open::ReadOnly: return SQLite::OPEN_READONLY;
  }
  return SQLite::OPEN_READONLY;
}

SQLite::Database opened(const std::string& path, Open mode) {
  errno = 0;
  try {
    return {path, flags_of(mode), kBusyMilliseconds, checked_files()};
  } catch (const SQLite::Exception& exception) {
    const int reason = errno;
    throw CannotOpen("database " + path + ": cannot be opened: " +
                     (reason != 0 ? std::strerror(reason) : exception.getErrorStr()));
  }
}

// Whether the code is the file system's fault, and says nothing of what the file holds.
bool says_no_access(int primary) {
  return primary == SQLITE_READONLY || primary == SQLITE_FULL || primary == SQLITE_IOERR ||
         primary == SQLITE_CANTOPEN || primary == SQLITE_PERM;
}

}  // namespace

Connection::Connection(std::string path, Open mode)
    : path_(std::move(path)), database_(opened(path_, mode)) {
  if (mode != Open::Create) return;
  int reserved = kChecksumBytes;  // of a new file's pages, and of all by VACUUM
  sqlite3_file_control(database_.getHandle(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  execute("PRAGMA cache_spill = OFF");  // a new file's header is written first
}

bool Connection::read_only() const {
  return sqlite3_db_readonly(database_.getHandle(), "main") == 1;
}

void Connection::execute(const std::string& sql) const {
  with([&](SQLite::Database& database) { database.exec(sql); });
}

void Connection::fail(const SQLite::Exception& exception, const std::string& sought) const {
  const std::string file = "database " + path_ + ": ";
  const int primary = exception.getErrorCode() & 0xff;
  const bool is_changed = exception.getExtendedErrorCode() == SQLITE_IOERR_DATA;
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT || is_changed) {
    throw Damaged(
        file +
        (primary == SQLITE_NOTADB ? "is no database, or its beginning is damaged"
                                  : "is damaged: what it holds is not what was written") +
        (sought.empty() ? "" : " (found in the search for " + sought + ")") +
        "; the file was left as it is: 'llmsim hardware check' says what is damaged; move it away "
        "and a new one will be created, or name another with --db");
  }
  if (says_no_access(primary)) throw CannotOpen(file + exception.what());
  throw Error(file + exception.what());
}

Statement::Statement(const Connection& connection, std::string_view sql)
    : connection_(&connection), statement_(connection.with([sql](SQLite::Database& database) {
        return SQLite::Statement(database, std::string(sql));
      })) {}

Statement& Statement::bind(std::string_view text) {
  constexpr std::size_t kLongestName = 64;
  if (text.size() <= kLongestName) sought_ += (sought_.empty() ? "" : ", ") + std::string(text);
  connection_->with([&](auto&) { statement_.bind(next_++, std::string(text)); });
  return *this;
}

Statement& Statement::bind(double number) {
  connection_->with([&](auto&) { statement_.bind(next_++, number); });
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  connection_->with([&](auto&) { statement_.bind(next_++, number); });
  return *this;
}

Statement& Statement::bind(std::optional<double> number) {
  if (number) return bind(*number);
  connection_->with([&](auto&) { statement_.bind(next_++); });
  return *this;
}

bool Statement::step() {
  return connection_->with([&](auto&) { return statement_.executeStep(); }, sought_);
}

void Statement::run() {
  while (step()) {
  }
  connection_->with([&](auto&) { statement_.reset(); });
  next_ = 1;
  sought_.clear();
}

std::string Statement::text(int column) const { return statement_.getColumn(column).getString(); }

double Statement::number(int column) const { return statement_.getColumn(column).getDouble(); }

std::int64_t Statement::integer(int column) const {
  return statement_.getColumn(column).getInt64();
}

std::optional<double> Statement::optional_number(int column) const {
  const SQLite::Column value = statement_.getColumn(column);
  return value.isNull() ? std::nullopt : std::optional(value.getDouble());
}

Transaction::Transaction(const Connection& connection)
    : connection_(&connection), transaction_(connection.with([](SQLite::Database& database) {
        return SQLite::Transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      })) {}

void Transaction::commit() {
  connection_->with([&](auto&) { transaction_.commit(); });
}

}  // namespace llmsim::hwdb::sqlite
