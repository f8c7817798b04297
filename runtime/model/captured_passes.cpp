#include "runtime/model/captured_passes.h"

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

std::vector<MicroBatch> cloned(const std::vector<MicroBatch>& batches) {
  std::vector<MicroBatch> clones = batches;
  for (MicroBatch& batch : clones) {
    if (batch.ids.defined()) batch.ids = batch.ids.clone();
    if (batch.targets.defined()) batch.targets = batch.targets.clone();
  }
  return clones;
}

}  // namespace

CapturedPasses::CapturedPasses(const Run& run, const std::vector<MicroBatch>& batches)
    : batches_(cloned(batches)), graph_([&] { results_.push_back(run(batches_)); }) {}

PipelineResult CapturedPasses::replay(const std::vector<MicroBatch>& batches) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].ids.defined()) batches_[i].ids.copy_(batches[i].ids);
    if (batches[i].targets.defined()) batches_[i].targets.copy_(batches[i].targets);
  }
  graph_.replay();
  return results_.back();
}

}  // namespace llmsim::runtime
