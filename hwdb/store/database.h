// The database: accelerators, systems, networks, measurements and coefficients, each row with its
// source, its evidence and its origin (shipped with the program, or added by the user).
// hwdb/README.md documents the schema.
//
// The file is created on first use.  Whenever the program ships other facts than the file holds,
// the shipped rows are replaced in one transaction; rows of the user are never touched, and hide
// shipped rows of the same name.  Several processes may open and create the same file at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwdb/store/evidence.h"
#include "sim/run.h"

namespace llmsim::hwdb {

enum class Origin { Shipped, User };
std::string_view name_of(Origin origin);  // "shipped", "user"

// What a reader of the database wants.  Read takes a file that cannot be written as it is, where it
// holds this program's facts; Write is an Error.
enum class Access { Read, Write };

// The two kinds of described hardware.
enum class HardwareKind { Accelerator, System };

struct HardwareRow {
  std::string id;
  std::string name;
  Origin origin = Origin::Shipped;
  std::string record;  // JSON, in the form of facts/accelerators.json and facts/systems.json
};

// One coefficient of the model: what it belongs to, its value and where it comes from.
struct Coefficient {
  std::string scope;  // "device", "system", "framework", "site" or "layout"
  std::string id;     // of the device, system, framework or site
  std::string key;    // see coefficients.h
  double value = 0.0;
  std::optional<double> standard_error;
  sim::Evidence evidence = sim::Evidence::Assumed;
  std::string source;
  std::string fitted_from;  // which measurements moved it; empty where it was not fitted
  Origin origin = Origin::User;
};

// One measured rate or curve.
struct Measurement {
  std::int64_t id = 0;
  std::string subject;      // "matmul", "collectives", "host_link", "prices", ...
  std::string accelerator;  // empty where the measurement belongs to no accelerator
  sim::Evidence evidence = sim::Evidence::Measured;
  std::string source;
  Origin origin = Origin::User;
  std::string record;   // JSON; the points of a curve are in `points`
  std::string columns;  // JSON list of names; empty: no curve
  std::string points;   // JSON list of rows
};

// $XDG_DATA_HOME/llmsim/llmsim.db, or .local/share/llmsim/llmsim.db in the home directory.  Throws
// Error where neither is set.
std::string default_database_path();
std::optional<std::string> known_default_database_path();  // none where neither is set

class Database {
 public:
  // Opens or creates the file at `path` (":memory:" for none), creating folders of the default path
  // only.  Throws Error naming the path for one that cannot be opened, a damaged file, a file of
  // another program or of a newer llmsim, and for Access::Write where writing is impossible.
  explicit Database(std::string path, Access access = Access::Read);

  // Opens the file at the default path for reading.  Where it can be neither opened nor made (no
  // home directory, a full disk): the shipped facts in memory, with one line on stderr.
  Database();
  ~Database();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;

  // Where the rows are: the path that was opened, or ":memory:".
  const std::string& path() const;

  // "facts of 2026-11-20 (0123456789ab)": which shipped facts the rows come from.
  std::string version() const;

  // The row of an id or alias; case and the difference between '-' and '_' do not matter.  Aliases
  // come first: "mi250x" is the GCD that frameworks see, though a record of the whole module has
  // that id.
  std::optional<HardwareRow> find(HardwareKind kind, std::string_view id_or_alias) const;

  // As find, but throws Error naming the nearest known names.
  HardwareRow get(HardwareKind kind, std::string_view id_or_alias) const;

  // By id; a user's row hides the shipped one.
  std::vector<HardwareRow> list(HardwareKind kind) const;
  std::vector<std::string> names(HardwareKind kind) const;  // ids and aliases
  std::vector<std::string> aliases(HardwareKind kind, const std::string& id) const;

  // User rows hide shipped ones.
  std::vector<Coefficient> coefficients(std::string_view scope, std::string_view id) const;
  std::vector<std::string> coefficient_ids(std::string_view scope) const;
  std::vector<Measurement> measurements(std::string_view subject,
                                        std::string_view accelerator) const;
  std::vector<Measurement> measurements(std::string_view subject) const;  // of all hardware
  std::int64_t count(const std::string& table, Origin origin) const;

  // The user's own rows.  Hardware and coefficients of the same name replace earlier rows of the
  // user.  `record` is the JSON of one accelerator or system with at least id, name and source.
  void put_hardware(HardwareKind kind, const std::string& record);
  void put(const Coefficient& coefficient);
  void put(const Measurement& measurement);

  // Removes the user's row of an id, with its aliases and its coefficients.
  void forget_hardware(HardwareKind kind, const std::string& id);

  // Removes the coefficients, of any origin, whose fitted_from begins with `fit`.
  void forget_fit(std::string_view fit);

  // Removes the user's coefficients of one scope and id.
  void forget(std::string_view scope, std::string_view id);

  // Runs `work` in one transaction: all of it or, where it throws, nothing.
  template <typename Work>
  void in_transaction(Work work) {
    begin();
    try {
      work();
      commit();
    } catch (...) {
      rollback();
      throw;
    }
  }

 private:
  void begin();
  void commit();
  void rollback() noexcept;
  void require_writable() const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmsim::hwdb
