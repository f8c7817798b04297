// Names of tests that run for every model of the catalogue.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

#include <gtest/gtest.h>

#include "tests/catalogue.h"

namespace llmsim::sim {

inline std::string model_name(const testing::TestParamInfo<NamedModel>& entry) {
  std::string name = entry.param.model.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

}  // namespace llmsim::sim
