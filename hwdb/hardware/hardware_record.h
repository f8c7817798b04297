// A row of the database about hardware while it is read: its fields, the source of each, and the
// facts that follow from them.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwdb/hardware/coefficients.h"
#include "hwdb/store/database.h"
#include "hwdb/text/json_reader.h"
#include "sim/hardware/device.h"
#include "sim/run.h"

namespace llmsim::hwdb {

struct HardwareRecord {
  HardwareRow row;
  nlohmann::json fields;

  sim::Evidence evidence(sim::Evidence shipped = sim::Evidence::DataSheet) const {
    return row.origin == Origin::User ? sim::Evidence::Given : shipped;
  }
};

HardwareRecord record_of(HardwareRow row);
// One of the user's own has what it does not say from the one that it is like, as assumptions.
HardwareRecord accelerator_record(const Database& database, std::string_view id);

// An object inside a record; empty where there is none.
const nlohmann::json& object_in(const nlohmann::json& record, const char* key);

// The source of a field.  A record has one source, or a map from groups of fields ("peaks,clock")
// to sources; "*" and "others" cover what is not named.  `hints` are the words under which a group
// may name the field, best first.
std::string source_for(const nlohmann::json& record, const std::vector<std::string>& hints);

// How the source of a field begins that a record has from the one that it is like.
inline constexpr const char* kAsLike = "not given, as of ";

// A value and where it comes from.
struct Sourced {
  double value = 0.0;
  sim::Evidence evidence = sim::Evidence::Assumed;
  std::string source;
};

// Collects the facts of one device or cluster.
class Ledger {
 public:
  explicit Ledger(std::string prefix) : prefix_(std::move(prefix)) {}

  void note(const std::string& key, std::string value, sim::Evidence evidence, std::string source) {
    if (source.starts_with(kAsLike)) evidence = sim::Evidence::Assumed;
    facts_.push_back({prefix_ + key, std::move(value), evidence, std::move(source)});
  }
  std::vector<sim::Fact> take() { return std::move(facts_); }

 private:
  std::string prefix_;
  std::vector<sim::Fact> facts_;
};

// As facts print them: "3.35 TB/s", "80 GiB", "12.5 us".
std::string printed(double value, const char* unit);
std::string printed(sim::Bytes size);
std::string printed(sim::FlopsPerSecond rate);
std::string printed(sim::BytesPerSecond rate);
std::string printed(const CoefficientValue& coefficient);

// One direction of PCIe Gen4 x16, where no host link is published.
inline constexpr sim::BytesPerSecond kPcieGen4{31.5e9};

// A device's peaks, sizes and price from its record, and what was measured on it; what neither says
// is assumed, and noted so.
//
// Private to hwdb.

// Without coefficients; notes every value but the host link's, which a coefficient may replace.
sim::Device recorded_device(const Database& database, const HardwareRecord& record, Ledger& ledger);

// USD of a device-hour: the price in the record, else the median of the public prices, of which a
// range counts with its middle.
struct HourPrice {
  Sourced usd;
  // Of the logarithm of the next price (sim/base/uncertainty.h, pooled); 0: the record's.
  double log_deviation = 0.0;
};
std::optional<HourPrice> hour_price(const Database& database, const HardwareRecord& record);

// Mean of the measured host-to-device rates, the practical rate of the record, or a fraction of the
// theoretical one.
Sourced host_bandwidth(const Database& database, const HardwareRecord& record);

}  // namespace llmsim::hwdb
