// RAII over the C interface of SQLite.  Private to hwdb; other folders see Database.
//
// A failed call is an Error that names the database and SQLite's message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace llmsim::hwdb::sqlite {

// The file cannot be opened or written: a missing folder, no permission, a full disk.
class CannotOpen : public Error {
 public:
  using Error::Error;
};

enum class Open { Create, Existing, ReadOnly };

class Connection {
 public:
  // Opens a file, or ":memory:"; throws CannotOpen.  Waits up to ten seconds for another process
  // that holds the database.
  Connection(std::string path, Open mode);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

  // Whether SQLite could open the file for reading only.
  bool read_only() const;

  void execute(const std::string& sql) const;

  // Throws Error with SQLite's last message; says what to do where the file is damaged or no
  // database at all.
  [[noreturn]] void fail(int code) const;

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

// A prepared statement.  bind() takes positions in order; step() is true while there are rows;
// columns count from 0.
class Statement {
 public:
  Statement(const Connection& connection, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text);
  Statement& bind(double number);
  Statement& bind(std::int64_t number);
  Statement& bind(std::optional<double> number);
  Statement& bind_null();

  bool step();
  void run();  // steps to the end and makes the statement ready to be bound again

  std::string text(int column) const;
  double number(int column) const;
  std::int64_t integer(int column) const;
  std::optional<double> optional_number(int column) const;

 private:
  void check(int code) const;

  const Connection* connection_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
};

// BEGIN IMMEDIATE ... COMMIT; rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(const Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  const Connection* connection_;
  bool open_ = true;
};

}  // namespace llmsim::hwdb::sqlite
