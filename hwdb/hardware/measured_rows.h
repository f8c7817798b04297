// The values inside a measurement: the fields of its record, and the rows of its curve.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/hardware/cluster.h"

namespace llmsim::hwdb {

// Named numbers, texts and truth values.  A field that is missing, null or a list reads as none.
class MeasuredRow {
 public:
  void set(const std::string& name, std::variant<double, std::string, bool> value) {
    values_[name] = std::move(value);
  }

  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;

 private:
  std::map<std::string, std::variant<double, std::string, bool>, std::less<>> values_;
};

MeasuredRow fields(const Measurement& measurement);

// One entry per point, named by the columns; or the objects of the record's own `rows`.
std::vector<MeasuredRow> rows(const Measurement& measurement);

// A measured device as a document of one's own hardware (user_hardware.h).

// What joins the ranks of one node; a bandwidth of 0 is unknown.
struct MeasuredFabric {
  sim::FabricKind kind = sim::FabricKind::Host;
  int devices = 1;
  sim::BytesPerSecond bandwidth{};
};

// JSON with the device as an accelerator and these coefficients of it.  `source` names the program
// that measured it.
std::string hardware_document(const sim::Device& device, const MeasuredFabric& fabric,
                              const std::vector<Coefficient>& coefficients,
                              const std::string& source);

// JSON with a device that is `like`, an id of the database, except for these coefficients, whose
// id is that of the new device, and for its power limit in watts where that is given.  The record
// is that of the other device: what it does not say itself is an assumption.
std::string hardware_document_like(const Database& database, const std::string& like,
                                   const std::string& id, std::optional<double> power_limit,
                                   const std::vector<Coefficient>& coefficients,
                                   const std::string& source);

}  // namespace llmsim::hwdb
