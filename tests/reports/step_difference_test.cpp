#include "reports/step_difference.h"

#include <gtest/gtest.h>

#include "tests/reports/sample_prediction.h"

namespace llmsim::reports {
namespace {

using calibrate::DifferenceLine;
using calibrate::StepPart;
using sim::Seconds;

// A step of 1.2 s where 1 s is predicted: 100 ms of idle gaps, 60 of a slow wire, 40 of more
// kernels.
Diagnosis sample_diagnosis() {
  Diagnosis diagnosis{.prediction = sample_prediction()};
  calibrate::StepDifference difference;
  difference.step = Seconds(1.2), difference.predicted_step = Seconds(1.0);
  difference.percentile = 0.97;
  difference.profiled.gaps = 50.0;
  difference.profiled.idle = Seconds(0.15);
  difference.lines = {
      {.part = StepPart::Idle, .measured = Seconds(0.15), .predicted = Seconds(0.05)},
      {.part = StepPart::Data, .measured = Seconds(0.16), .predicted = Seconds(0.1)},
      {.part = StepPart::MemoryBound,
       .measured = Seconds(0.19),
       .predicted = Seconds(0.15),
       .kernels = 3000.0,
       .predicted_kernels = 1000.0},
      {.part = StepPart::Gemms, .measured = Seconds(0.7), .predicted = Seconds(0.7)}};
  difference.collectives = {{.part = StepPart::Data,
                             .kind = sim::CollectiveKind::AllReduce,
                             .ranks = 8,
                             .calls = 10.0,
                             .predicted_calls = 10.0,
                             .message = sim::Bytes(8e9),
                             .predicted_message = sim::Bytes(8e9),
                             .wire = Seconds(0.16),
                             .predicted = Seconds(0.1)}};
  diagnosis.difference = difference;
  return diagnosis;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// 100 of 1,200 ms are 8.33 %; 8 GB in 0.16 s over 8 ranks are 2 * 7 / 8 * 50 GB/s.
TEST(Findings, SayWhatWeighsMostInWords) {
  const std::vector<std::string> found = findings(sample_diagnosis());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(says(found[0], "worth 8.33 %")) << found[0];
  EXPECT_TRUE(says(found[0], "50 gaps of 3.000 ms")) << found[0];
  EXPECT_TRUE(says(found[1], "87.5 GB/s of bus bandwidth, 140 GB/s are expected")) << found[1];
  EXPECT_TRUE(says(found[2], "3,000 kernels ran, 1,000 are expected")) << found[2];
}

// Rank 1 computes 30 ms longer, and the others wait for it.
TEST(Findings, SayWhichRankIsLateAndWhy) {
  Diagnosis diagnosis = sample_diagnosis();
  diagnosis.difference->lines = {
      {.part = StepPart::Waiting, .measured = Seconds(0.04), .predicted = Seconds(0.01)}};
  diagnosis.difference->ranks = {
      {.name = "rank 0", .computing = Seconds(0.5), .waiting = Seconds(0.03)},
      {.name = "rank 1", .computing = Seconds(0.53), .late = Seconds(0.03)}};
  const std::string text = findings(diagnosis).front();
  EXPECT_TRUE(says(text, "rank 1 comes last to collectives")) << text;
  EXPECT_TRUE(says(text, "it computes 30.00 ms longer")) << text;
}

TEST(StepDifferenceScreen, StaysWithinAHundredColumnsAndEndsInTheStep) {
  const std::string text = render(sample_diagnosis(), {.database = "x"}, Format::Table);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_TRUE(says(text, "97 % of such predictions are faster: slower than the interval has it"));
  EXPECT_TRUE(says(text, "idle: launches, host"));
}

TEST(StepDifferenceScreen, HasStableKeysForMachines) {
  const std::string csv = render(sample_diagnosis(), {.database = "x"}, Format::Csv);
  EXPECT_TRUE(csv.starts_with("part,measured_s,predicted_s,difference_s,worth,kernels,"));
  EXPECT_TRUE(says(csv, "\nmemory_bound,0.19,0.15,"));
  const std::string document = render(sample_diagnosis(), {.database = "x"}, Format::Json);
  for (const char* key : {"\"percentile\": 0.97", "\"data_collectives\"", "\"busbw_bytes_per_s\"",
                          "\"marked_by\": \"none\"", "\"factors\": []"})
    EXPECT_TRUE(says(document, key)) << key;
}

}  // namespace
}  // namespace llmsim::reports
