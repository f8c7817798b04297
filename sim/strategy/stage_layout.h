// Which parts of the model a pipeline stage holds, schedule by schedule.
//
// The model is cut into parts in its own order; a stage holds some of them as its chunks.  With p stages and v chunks a stage
//
//   GPipe, 1F1B, ZB-H1   p parts    chunk 0 of stage s is part s
//   interleaved          p v parts  chunk c of stage s is part c p + s
//   ZB-V                 2 p parts  chunks 0 and 1 of stage s are parts s and 2 p - 1 - s: down the stages and up again, so that
//                                   the first stage has both ends of the model
//   DualPipe             p parts    chunks 0 and 1 of stage s are parts s and p - 1 - s: every part is held twice; half of the
//                                   micro-batches go down the stages through the chunks 0, half go up through the chunks 1
//
// Sources: Narayanan et al. 2021 (interleaved); Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362 (V);
// DeepSeek-V3 technical report, arXiv 2412.19437 (DualPipe).
#pragma once

#include <optional>

#include "sim/strategy/strategy.h"

namespace llmsim::sim {

struct StageLayout {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;
  int virtual_stages = 1;
  int num_microbatches = 1;

  int chunks() const;  // of every stage
  int parts() const;   // of the model
  // The part that chunk `chunk` of a stage is.
  int part(int stage, int chunk) const;
  bool ends_meet() const;  // the embedding and the head are on one stage
  // Where what a chunk makes goes, the activations of a forward or the gradients of a backward pass; none where the stage itself,
  // at the turn of a V, or nobody, at an end of the model, needs it.
  std::optional<int> next_stage(int stage, int chunk, bool backward) const;
  // Micro-batches of a step that go through one chunk: all, or half of them where they come from both ends.
  int chunk_microbatches() const;

 private:
  bool goes_up(int chunk) const;  // towards the first stage
};

StageLayout stage_layout(const Strategy& strategy);

// Whether every backward pass is executed as two, data gradients and weight gradients (ZB-H1, ZB-V).  DualPipe splits only some
// of them, while it fills and drains.
bool splits_backward(PipelineSchedule schedule);

// Whether the next step of a stage begins when the stage itself has ended this one: the norm of the gradients is checked after
// the update, which is undone where it was too large (Qi et al. 2023, section 4).  Otherwise all stages wait for the last.
bool updates_unsynchronised(PipelineSchedule schedule);

}  // namespace llmsim::sim
