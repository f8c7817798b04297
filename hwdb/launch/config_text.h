// Configuration files of training programs as flat keys: "training.seq_len", lists joined by ",".
//
// Private to hwdb.
#pragma once

#include <string>
#include <vector>

#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

// Throw Error with file and line where the text is none of the format.
LaunchText parsed_toml(const std::string& text, const std::string& path);
LaunchText parsed_json(const std::string& text, const std::string& path);
LaunchText parsed_yaml(const std::string& text, const std::string& path);

// Entries by their sections, in their order.
std::string toml_text(const std::vector<LaunchEntry>& entries);

std::string json_text(const std::vector<LaunchEntry>& entries);
std::string yaml_text(std::vector<LaunchEntry> entries);

}  // namespace llmsim::hwdb
