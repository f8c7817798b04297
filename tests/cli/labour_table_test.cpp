// The table of sim/README.md says what layouts cost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "hwdb/text/input_file.h"
#include "sim/search/layout_costs.h"

namespace llmsim {
namespace {

TEST(LabourTable, StandsInTheReadmeAsItCounts) {
  const std::string readme = hwdb::content_of_file(LLMSIM_SOURCE_DIR "/sim/README.md");
  for (const sim::Labour& labour : sim::labours()) {
    const std::string cost = fmt::format(" | {:.1f} % |\n", 100.0 * labour.cost);
    EXPECT_TRUE(readme.find(std::string("| ") + labour.what + cost) != std::string::npos ||
                readme.find(std::string("| ") + labour.what + ", a doubling" + cost) !=
                    std::string::npos)
        << labour.what << cost;
  }
}

}  // namespace
}  // namespace llmsim
