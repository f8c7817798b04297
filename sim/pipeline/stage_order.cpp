#include "sim/pipeline/stage_order.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

namespace llmsim::sim {
namespace {

// Appends passes; each kind of pass of each chunk takes its micro-batches in their order.
class OrderWriter {
 public:
  void forward(int chunk) { add(chunk, PassKind::Forward, forwards_[chunk]++); }
  void data_gradient(int chunk) { add(chunk, PassKind::DataGradient, backwards_[chunk]++); }
  void weight_gradient(int chunk) { add(chunk, PassKind::WeightGradient, weights_[chunk]++); }
  // Data and weight gradients as two passes, one after the other.
  void both_gradients(int chunk) {
    data_gradient(chunk);
    weight_gradient(chunk);
  }
  void backward(int chunk) {
    assert(backwards_[chunk] == weights_[chunk]);
    add(chunk, PassKind::Backward, backwards_[chunk]++);
    ++weights_[chunk];
  }
  void join_last() { order_.back().joins_next = true; }

  int forwards(int chunk) const { return forwards_[chunk]; }
  int backwards(int chunk) const { return backwards_[chunk]; }
  bool weights_wait(int chunk) const { return weights_[chunk] < backwards_[chunk]; }

  std::vector<PipelinePass>& order() { return order_; }

 private:
  using Counts = std::array<int, 2>;  // by chunk

  void add(int chunk, PassKind kind, int microbatch) {
    order_.push_back({.chunk = chunk, .microbatch = microbatch, .kind = kind});
  }

  std::vector<PipelinePass> order_;
  Counts forwards_{}, backwards_{}, weights_{};
};

// One stage of a DualPipe.  `near` is the chunk through which the micro-batches of the closer end
// of the pipeline go.
class DualPipeStage {
 public:
  DualPipeStage(const PipelineShape& shape, int stage)
      : shape_(shape),
        half_(shape.stages / 2),
        place_(std::min(stage, shape.stages - 1 - stage)),
        near_(stage >= half_ ? 1 : 0),
        far_(1 - near_) {}

  std::vector<PipelinePass> order() {
    const int inner = this->inner(), outer = place_ + 1;
    write_.order().reserve(3 * static_cast<std::size_t>(shape_.num_microbatches));
    waiting_.reserve(static_cast<std::size_t>(shape_.stages));
    for (int i = 0; i < 2 * inner; ++i) write_.forward(near_);
    for (int i = 0; i < outer; ++i) write_.forward(near_), write_.forward(far_);
    for (int i = 0; i < inner; ++i) data_gradient(far_), oldest_weights(), write_.forward(far_);
    for (int i = 0; i < exchanges(); ++i) exchange(i == 0 && inner == 0);
    for (int i = 0; i < inner; ++i) write_.backward(far_), together(far_, near_);
    drain(outer);
    for (int i = 0; i < inner; ++i) oldest_weights(), data_gradient(near_);
    for (int i = 0; i < outer; ++i) oldest_weights();
    number_from_the_other_end();
    return std::move(write_.order());
  }

  std::array<int, 2> joined_pairs() const {
    std::array<int, 2> pairs{};
    pairs[at(near_)] = exchanges() - (inner() == 0 && exchanges() > 0 ? 1 : 0);
    pairs[at(far_)] = exchanges() + inner();
    return pairs;
  }

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }

  // Stages between this one and the middle of its half.
  int inner() const { return half_ - place_ - 1; }
  // Rounds of a forward and a backward pass in both directions.
  int exchanges() const {
    return std::max(0, shape_.num_microbatches / 2 - shape_.stages + place_ + 1);
  }

  void data_gradient(int chunk) {
    write_.data_gradient(chunk);
    waiting_.push_back(chunk);
  }

  void oldest_weights() { write_.weight_gradient(waiting_[done_++]); }

  void together(int forward, int backward) {
    write_.forward(forward);
    write_.join_last();
    write_.backward(backward);
  }

  // The middle stages do not overlap their first two passes, which shortens the bubble.
  void exchange(bool first_in_the_middle) {
    if (first_in_the_middle) {
      write_.forward(near_), write_.backward(far_);
    } else {
      together(near_, far_);
    }
    together(far_, near_);
  }

  // Backward passes alone; the second half of them is split.
  void drain(int rounds) {
    bool split = false;
    const auto backward = [&](int chunk) { split ? data_gradient(chunk) : write_.backward(chunk); };
    for (int i = 0; i < rounds; ++i) {
      split = split || (i == rounds / 2 && place_ % 2 == 1);
      backward(far_);
      split = split || (i == rounds / 2 && place_ % 2 == 0);
      backward(near_);
    }
  }

  void number_from_the_other_end() {
    for (PipelinePass& pass : write_.order()) {
      if (pass.chunk == 1) pass.microbatch += shape_.num_microbatches / 2;
    }
  }

  const PipelineShape& shape_;
  int half_;
  int place_;  // from the closer end
  int near_;
  int far_;
  OrderWriter write_;
  std::vector<int> waiting_;  // chunks whose weight gradients are to be made, oldest first
  std::size_t done_ = 0;      // of them
};

std::vector<PipelinePass> zb_h1_order(const PipelineShape& shape, int stage) {
  const int m = shape.num_microbatches, warmup = std::min(m, shape.stages - stage - 1);
  OrderWriter write;
  for (int i = 0; i < warmup; ++i) write.forward(0);
  for (int i = warmup; i < m; ++i) {
    write.forward(0);
    write.data_gradient(0);
    if (write.backwards(0) > stage) write.weight_gradient(0);
  }
  for (int i = 0; i < warmup; ++i) write.both_gradients(0);
  while (write.weights_wait(0)) write.weight_gradient(0);
  return std::move(write.order());
}

std::vector<PipelinePass> zb_v_order(const PipelineShape& shape, int stage) {
  const int p = shape.stages, fewest = 2 * p - 1, m = std::max(fewest, shape.num_microbatches);
  OrderWriter write;
  for (int i = 0; i < 2 * (p - stage) - 1; ++i) write.forward(0);
  for (int i = 0; i < stage; ++i) write.forward(1), write.forward(0);
  for (int i = 0; i < p - stage; ++i) write.forward(1), write.both_gradients(1);
  while (write.forwards(1) < write.forwards(0) || write.forwards(0) < m) {
    if (write.forwards(0) < m) write.forward(0);
    write.both_gradients(0), write.forward(1), write.both_gradients(1);
  }
  for (int i = 0; i < stage; ++i) write.data_gradient(0), write.data_gradient(1);
  for (int i = 0; i < p - stage; ++i) write.both_gradients(0);
  while (write.weights_wait(1)) write.weight_gradient(1);
  while (write.weights_wait(0)) write.weight_gradient(0);
  // Fewer micro-batches leave out passes of the shortest whole pipeline.
  std::erase_if(write.order(), [&](const PipelinePass& pass) {
    return pass.microbatch >= shape.num_microbatches;
  });
  return std::move(write.order());
}

// When a micro-batch is at the stage, in the order of kBlockPasses, if all passes take as long.
using BuildingBlock = std::array<int, 4>;

struct BlockPass {
  int chunk;
  bool backward;  // data gradients
};
constexpr std::array<BlockPass, 4> kBlockPasses{{{0, false}, {1, false}, {1, true}, {0, true}}};

// Passes of a stage for one micro-batch: forward, data gradients and weight gradients of two
// chunks, after which the building block of the next begins.
constexpr int kBlockPeriod = 6;

BuildingBlock building_block(const PipelineShape& shape, int s) {
  const int p = shape.stages;
  if (shape.schedule == PipelineSchedule::VMin) {
    const int delay = p % 3 == 0 ? 2 : 0;
    return {s, 2 * p - 1 - s, 2 * p + delay + s, 4 * p - 1 + delay - s};
  }
  const int delay = p % 2 == 0 ? 3 : 0;
  return {2 * s, 3 * p - 2 - s, 3 * p - 1 + delay + 2 * s, 6 * p - 2 + delay - s};
}

// Chunks of micro-batches that a stage of V-Half or V-Min holds at most.
int most_chunks(const PipelineShape& shape) {
  const int p = shape.stages;
  return 2 * (shape.schedule == PipelineSchedule::VMin ? (p + 1) / 3 : p / 2) + 2;
}

// The stages of a V-Half or V-Min, which run against each other with passes that all take as long.
class BlockStages {
 public:
  explicit BlockStages(const PipelineShape& shape)
      : shape_(shape), most_(most_chunks(shape)), stages_(static_cast<std::size_t>(shape.stages)) {
    for (int s = 0; s < shape.stages; ++s) stages_[at(s)].block = building_block(shape, s);
  }

  std::vector<PipelinePass> order(int stage) {
    const auto passes = static_cast<std::size_t>(kBlockPeriod * shape_.num_microbatches);
    while (stages_[at(stage)].write.order().size() < passes) run_one_pass_each();
    return std::move(stages_[at(stage)].write.order());
  }

 private:
  struct Stage {
    BuildingBlock block{};
    std::array<int, 4> done{};  // passes of kBlockPasses
    OrderWriter write;
    std::vector<int> waiting;  // chunks whose weight gradients are to be made, oldest first
    std::size_t weights = 0;   // of them made

    int in_flight() const { return done[0] + done[1] - static_cast<int>(weights); }
    bool weights_wait() const { return weights < waiting.size(); }
  };
  enum class Choice { Wait, Data, Weights };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  // The forward pass or the data gradients that come next; none are left at the end.
  std::optional<std::size_t> next(const Stage& stage) const {
    std::optional<std::size_t> earliest;
    const auto start = [&](std::size_t i) { return stage.block[i] + kBlockPeriod * stage.done[i]; };
    for (std::size_t i = 0; i < kBlockPasses.size(); ++i) {
      if (stage.done[i] < shape_.num_microbatches && (!earliest || start(i) < start(*earliest)))
        earliest = i;
    }
    return earliest;
  }

  // Whether pass `i` of the next micro-batch has its input on stage `s`: from the stage before it
  // on the way down or up, or from its own pass before it where the V turns.
  bool has_input(int s, std::size_t i) const {
    const int before = i % 2 == 0 ? s - 1 : s + 1, own = stages_[at(s)].done[i];
    if (before >= 0 && before < shape_.stages) return stages_[at(before)].done[i] > own;
    return i == 0 || stages_[at(s)].done[i - 1] > own;
  }

  Choice choice(int s) const {
    const Stage& stage = stages_[at(s)];
    const std::optional<std::size_t> pass = next(stage);
    const bool has_room = pass && (kBlockPasses[*pass].backward || stage.in_flight() < most_);
    if (has_room && has_input(s, *pass)) return Choice::Data;
    return stage.weights_wait() ? Choice::Weights : Choice::Wait;
  }

  void run(Stage& stage, Choice choice) {
    if (choice == Choice::Wait) return;
    if (choice == Choice::Weights)
      return stage.write.weight_gradient(stage.waiting[stage.weights++]);
    const std::size_t pass = *next(stage);
    ++stage.done[pass];
    const auto [chunk, backward] = kBlockPasses[pass];
    if (!backward) return stage.write.forward(chunk);
    stage.write.data_gradient(chunk);
    stage.waiting.push_back(chunk);
  }

  void run_one_pass_each() {
    choices_.clear();
    for (int s = 0; s < shape_.stages; ++s) choices_.push_back(choice(s));
    for (std::size_t s = 0; s < stages_.size(); ++s) run(stages_[s], choices_[s]);
  }

  const PipelineShape& shape_;
  int most_;
  std::vector<Stage> stages_;
  std::vector<Choice> choices_;
};

// What passes in flight hold: a forward pass takes it, the last pass of the same micro-batch
// through the same chunk gives it back.
int most_in_flight(const std::vector<PipelinePass>& order) {
  int now = 0, most = 0;
  for (const PipelinePass& pass : order) {
    if (pass.kind == PassKind::Forward) most = std::max(most, ++now);
    if (pass.kind == PassKind::Backward || pass.kind == PassKind::WeightGradient) --now;
  }
  return most;
}

}  // namespace

StageLayout PipelineShape::layout() const {
  return {.schedule = schedule,
          .stages = stages,
          .virtual_stages = virtual_stages,
          .num_microbatches = num_microbatches};
}

PipelineShape pipeline_shape(const Strategy& strategy) {
  return {.schedule = strategy.pipeline_schedule,
          .stages = strategy.pp,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches()};
}

int microbatch_group(const PipelineShape& shape) {
  int size = shape.stages;
  const auto leaves_a_small_group = [&] {
    const int rest = shape.num_microbatches % size;
    return rest > 0 && rest < shape.stages;
  };
  while (size < shape.num_microbatches && leaves_a_small_group()) ++size;
  return size;
}

int warmup_passes(const PipelineShape& shape, int stage) {
  const int total = shape.num_microbatches * shape.virtual_stages;
  switch (shape.schedule) {
    case PipelineSchedule::OneForwardOneBackward: return std::min(total, shape.stages - stage - 1);
    case PipelineSchedule::Interleaved:
      return std::min(total, 2 * (shape.stages - stage - 1) +
                                 (shape.virtual_stages - 1) * microbatch_group(shape));
    default: return total;
  }
}

std::vector<PipelinePass> first_passes(const PipelineShape& shape, int stage, int count) {
  std::vector<PipelinePass> order;
  const int all = 2 * shape.num_microbatches * shape.virtual_stages;
  order.reserve(static_cast<std::size_t>(std::min(all, count)));
  const auto add = [&](PipelinePass pass, int further) {
    pass.microbatch += further;
    order.push_back(pass);
  };
  visit_pass_runs(shape, stage, count, [&](const PassRun& run) {
    for (int i = 0; i < run.times; ++i) {
      add(run.first, i);
      if (run.second) add(*run.second, i);
    }
  });
  return order;
}

std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case PipelineSchedule::ZbH1: return zb_h1_order(shape, stage);
    case PipelineSchedule::ZbV: return zb_v_order(shape, stage);
    case PipelineSchedule::VHalf:
    case PipelineSchedule::VMin: return BlockStages(shape).order(stage);
    case PipelineSchedule::DualPipe: return DualPipeStage(shape, stage).order();
    default: return first_passes(shape, stage, std::numeric_limits<int>::max());
  }
}

std::array<int, 2> joined_pairs(const PipelineShape& shape, int stage) {
  return DualPipeStage(shape, stage).joined_pairs();
}

int messages_under_way(const PipelineShape& shape) {
  return shape.virtual_stages == 1 ? 1 : microbatch_group(shape) - shape.stages + 1;
}

int peak_in_flight(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case PipelineSchedule::ZbH1:
    case PipelineSchedule::ZbV:
    case PipelineSchedule::VHalf:
    case PipelineSchedule::VMin:
    case PipelineSchedule::DualPipe: return most_in_flight(stage_order(shape, stage));
    default:
      return std::min(shape.num_microbatches * shape.virtual_stages,
                      warmup_passes(shape, stage) + 1);
  }
}

}  // namespace llmsim::sim
