// SQLiteCpp with the words of this program.  Private to hwdb; other folders see Database.
//
// A failed call is an Error that names the database and SQLite's message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <SQLiteCpp/SQLiteCpp.h>

#include "sim/base/error.h"

namespace llmsim::hwdb::sqlite {

// The file cannot be opened or written: a missing folder, no permission, a full disk.
class CannotOpen : public Error {
 public:
  using Error::Error;
};

// The file holds what no program wrote there, or is no database.
class Damaged : public Error {
 public:
  using Error::Error;
};

enum class Open { Create, Existing, ReadOnly };

class Connection {
 public:
  // Opens a file, or ":memory:"; throws CannotOpen.  Waits up to ten seconds for another process
  // that holds the database.
  Connection(std::string path, Open mode);

  const std::string& path() const { return path_; }

  // Whether SQLite could open the file for reading only.
  bool read_only() const;

  void execute(const std::string& sql) const;

  // The result of `call` on the database.  A failure of SQLite becomes an Error, which says what to
  // do where the file is damaged or no database at all, and the names that were sought there.
  template <typename Call>
  auto with(Call call, const std::string& sought = "") const {
    try {
      return call(database_);
    } catch (const SQLite::Exception& exception) {
      fail(exception, sought);
    }
  }

 private:
  [[noreturn]] void fail(const SQLite::Exception& exception, const std::string& sought) const;

  std::string path_;
  mutable SQLite::Database database_;
};

// A prepared statement.  bind() takes positions in order; step() is true while there are rows;
// columns count from 0.
class Statement {
 public:
  Statement(const Connection& connection, std::string_view sql);

  Statement& bind(std::string_view text);
  Statement& bind(double number);
  Statement& bind(std::int64_t number);
  Statement& bind(std::optional<double> number);

  bool step();
  void run();  // steps to the end and makes the statement ready to be bound again

  std::string text(int column) const;
  double number(int column) const;
  std::int64_t integer(int column) const;
  std::optional<double> optional_number(int column) const;

 private:
  const Connection* connection_;
  mutable SQLite::Statement statement_;
  int next_ = 1;
  std::string sought_;  // the names that are bound: "device, h100_sxm"
};

// BEGIN IMMEDIATE ... COMMIT; rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(const Connection& connection);

  void commit();

 private:
  const Connection* connection_;
  SQLite::Transaction transaction_;
};

}  // namespace llmsim::hwdb::sqlite
