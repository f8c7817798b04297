// The settings of a run record that a study may switch, so that runs that differ in one of them can
// be paired.
//
// Settings are the fields of a strategy (sim/strategy/strategy.h), where "topology" is tp, pp and
// dp, "recompute" the whole of it and "virtual_stages" the schedule too, and those of
// hwdb/frameworks/settings.h under their own keys, except those that are a detail of one above (the
// recipe of fp8 is part of "precision").  "vocab_size" is the model's, "software" the framework
// with its version.  Free text is no setting.
#pragma once

#include <map>
#include <string>

#include "hwdb/runs/run_record.h"

namespace llmsim::calibrate {

// One value of a setting.  Values of one setting are ordered by rank (off before on, no
// recomputation before all of it, 16- and 32-bit formats before low-precision ones, few ranks
// before many), then by text.
struct SettingValue {
  std::string text;  // as people write it: "on", "full", "bf16", "tp 4, pp 12, dp 8"
  double rank = 0.0;
  bool known = true;  // false: not in the record

  bool operator==(const SettingValue& other) const {
    return known == other.known && text == other.text;
  }
};

bool operator<(const SettingValue& a, const SettingValue& b);

// Tensor, pipeline and data ranks on the same devices.
inline constexpr const char* kTopology = "topology";
inline constexpr const char* kSoftware = "software";  // framework and version

// Values of these settings lie on a line, so that only neighbours are worth pairing; of the others,
// any two are.
bool is_scale(const std::string& setting);

// The value of every setting of a run, by name.
using Settings = std::map<std::string, SettingValue>;
Settings settings_of(const hwdb::RunRecord& record);

// Text that two runs share exactly where they are the same study, model, hardware and global batch
// and agree in every setting but `setting`.  `settings` are those of the record.
std::string all_but(const std::string& setting, const hwdb::RunRecord& record,
                    const Settings& settings);

}  // namespace llmsim::calibrate
