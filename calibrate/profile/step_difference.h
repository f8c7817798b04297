// Where the time of a measured step went, part by part against its prediction.
//
// The parts of both are partitions (step_part.h), so that the lines add up:
//
//   measured - predicted = sum of (measured_i - predicted_i)
//
// A line of its own is what recomputation takes that was not asked for.  With f forward kernels of
// attention where c calls and r repeated ones are expected, (f - c - r) / c of the blocks are
// recomputed; where at least half as many more GEMMs ran, whole blocks, else attention alone. Their
// share of the time of the same kernels goes to this line.
//
// Of several ranks the one with the median of waiting stands for the run; of stages of a pipeline
// the one that computes longest, because predictions are of the busiest stage.  Of ranks that wait
// for one another the late one waits least.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/profile/predicted_step.h"
#include "calibrate/profile/profiled_step.h"
#include "sim/predict.h"

namespace llmsim::calibrate {

struct DifferenceLine {
  StepPart part = StepPart::Gemms;
  bool recomputed = false;  // the line of recomputation, whose part is Gemms
  sim::Seconds measured{}, predicted{};
  // Kernels, or calls of collectives; none where they are not counted.
  std::optional<double> kernels{}, predicted_kernels{};

  sim::Seconds difference() const { return measured - predicted; }
};

// "recomputation", or the name of the part.
const char* key_of(const DifferenceLine& line);

// One kind of collective of one part.
struct CollectiveComparison {
  StepPart part = StepPart::OtherCollectives;
  std::optional<sim::CollectiveKind> kind;
  int ranks = 0;
  double calls = 0.0, predicted_calls = 0.0;
  sim::Bytes message{}, predicted_message{};  // of all calls; 0: not known
  sim::Seconds wire{}, predicted{};           // of all calls, hidden or not

  // As nccl-tests define it; none without bytes.
  std::optional<sim::BytesPerSecond> busbw() const, predicted_busbw() const;
};

struct GemmComparison {
  hwdb::GemmShape shape;
  double calls = 0.0, predicted_calls = 0.0;
  sim::Seconds time{};  // of all calls
  std::optional<sim::Seconds> predicted_each;

  sim::Flops flops_each() const;
  // What it takes beyond its prediction.
  sim::Seconds lost() const;
};

// A rank of several.
struct RankTimes {
  std::string name;  // "rank 3", or a file
  sim::Seconds step{}, computing{}, waiting{}, idle{};
  sim::Seconds late{};  // by how much others waited for it longer: the median waiting less its own
};

struct StepDifference {
  ProfiledStep profiled;
  PredictedStep predicted;
  sim::Seconds step{}, predicted_step{};  // measured, predicted
  double percentile = 0.0;                // of the measured step
  std::vector<DifferenceLine> lines{};    // the largest difference first; without empty ones
  std::vector<CollectiveComparison> collectives{};
  std::vector<GemmComparison> gemms{};  // with the most lost first
  std::vector<RankTimes> ranks{};       // of several
  sim::FlopsPerSecond gemm_rate{}, predicted_gemm_rate{};
  double unasked_recomputation = 0.0;  // share of the forward passes
};

// `steps` are of one run; requires at least one, and a prediction with a step time.
StepDifference step_difference(std::span<const ProfiledStep> steps,
                               const sim::Prediction& prediction);

// Where a measured step stands in the distribution of the prediction's error: Student's t whose
// tenths are the interval's ends (sim/base/uncertainty.h).
double step_percentile(const sim::Prediction& prediction, sim::Seconds measured);

// What a step time alone says: by how much each part would have to be longer, if it alone were.
struct PartFactor {
  StepPart part = StepPart::Gemms;
  sim::Seconds predicted{};
  double factor = 1.0;      // (predicted + measured step - predicted step) / predicted
  double deviations = 0.0;  // |ln factor| over what parts of this kind usually are off by
};

// The most likely first; parts that would have to be gone are left out.
std::vector<PartFactor> part_factors(const PredictedStep& predicted, sim::Seconds measured);

}  // namespace llmsim::calibrate
