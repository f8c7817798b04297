#include "sim/memory/stage_contents.h"

#include "sim/pipeline/pipeline.h"

namespace llmsim::sim {

StageContents::StageContents(const Transformer& model, const Strategy& strategy)
    : strategy_(strategy),
      layout_(stage_layout(strategy)),
      parts_(model_parts(model, strategy)),
      rank_(rank_parameters(model, strategy)) {}

int StageContents::blocks(int stage) const {
  int sum = 0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += part(stage, chunk).blocks;
  return sum;
}

int StageContents::moe_blocks(int stage) const {
  int sum = 0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += part(stage, chunk).moe_blocks;
  return sum;
}

double StageContents::apart(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.apart(part(stage, chunk));
  return sum;
}

double StageContents::held(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.held(part(stage, chunk));
  return sum;
}

double StageContents::trained(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.trained(part(stage, chunk));
  return sum;
}

int StageContents::chunks_in_flight(int stage) const { return peak_in_flight(pipeline_shape(strategy_), stage); }

}  // namespace llmsim::sim
