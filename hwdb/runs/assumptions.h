// Collects what is assumed about one record while it becomes a run, and words its errors.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>

#include "hwdb/runs/run_record.h"
#include "sim/base/error.h"
#include "sim/run.h"

namespace llmsim::hwdb {

class Assumptions {
 public:
  Assumptions(const RunRecord& record, sim::Run& run) : record_(record), run_(run) {}

  // The value of the record, or `fallback` with a note.
  template <class T>
  T given(const std::optional<T>& value, const char* key, T fallback, const std::string& reason) {
    if (value) return *value;
    note(key, shown(fallback), reason);
    return fallback;
  }

  void note(const char* key, const std::string& value, const std::string& reason) {
    run_.facts.push_back({std::string("assumed.") + key, value, sim::Evidence::Assumed, reason});
  }

  [[noreturn]] void refuse(const std::string& message) const {
    throw Error((record_.file.empty() ? "" : record_.file + ": ") + "run " + record_.id + ": " +
                message);
  }

  template <class T>
  const T& required(const std::optional<T>& value, const char* key) const {
    if (!value) refuse(std::string(key) + " is missing");
    return *value;
  }

 private:
  static std::string shown(bool value) { return value ? "true" : "false"; }
  static std::string shown(int value) { return std::to_string(value); }
  static std::string shown(const std::string& value) { return value; }

  const RunRecord& record_;
  sim::Run& run_;
};

}  // namespace llmsim::hwdb
