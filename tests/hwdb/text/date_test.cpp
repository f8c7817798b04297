#include "hwdb/text/date.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

TEST(Date, IsADayOfTheCalendar) {
  EXPECT_TRUE(is_date("2024-02-29"));
  for (const char* none : {"2023-02-29", "2021-13-01", "2021-00-10", "2021-99-99", "----------",
                           "2021-1--01", "2021-01-1-", "2021-01-011", ""})
    EXPECT_FALSE(is_date(none)) << none;
}

}  // namespace
}  // namespace llmsim::hwdb
