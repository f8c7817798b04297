#include "sim/memory/step_walk.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "sim/memory/stage_bytes.h"
#include "sim/pipeline/stage_order.h"

namespace llmsim::sim {

struct WalkedChunk {
  ModelChunk model_chunk;
  ChunkMemory* memory = nullptr;
};

// A pipeline stage as the walk finds it: its chunks with their layers, the rules of their passes,
// the bytes that are not activations, and how many micro-batches must be followed.
struct WalkedStage {
  const Run& run;
  int number;
  PipelineShape shape;
  StageBytes bytes;
  PassRules rules;
  std::vector<WalkedChunk> chunks{};

  bool autograd() const { return run.framework.autograd; }
  const WalkedChunk& chunk(int place) const { return chunks[static_cast<std::size_t>(place)]; }
  bool chunks_are_alike() const;
  std::vector<ModelChunk> model_chunks() const;
  int blocks() const;
  // Offloaded activations of the block that is on its way to the host or back, beside the one at
  // hand.
  Bytes block_on_its_way() const;
  int followed_microbatches() const;
  // Whether nothing is there between passes but what they leave.
  bool leaves_alone() const;
  std::optional<int> passes_to_peak() const;  // none: all of those micro-batches
};

namespace {

// Names of activations that no layer has.
constexpr const char* kWeightInputs = "inputs of weight gradients that are made later";
constexpr const char* kOnItsWay = "on the way to the host";

constexpr int kSteadyMicroBatches = 3, kRoundsOfInterleaving = 3, kSteadyOfDualPipe = 6;

}  // namespace

bool WalkedStage::chunks_are_alike() const {
  return std::all_of(chunks.begin(), chunks.end(), [&](const WalkedChunk& chunk) {
    return chunk.memory == chunks.front().memory;
  });
}

std::vector<ModelChunk> WalkedStage::model_chunks() const {
  std::vector<ModelChunk> all;
  for (const WalkedChunk& chunk : chunks) all.push_back(chunk.model_chunk);
  return all;
}

int WalkedStage::blocks() const {
  int sum = 0;
  for (const WalkedChunk& chunk : chunks) sum += chunk.model_chunk.blocks;
  return sum;
}

Bytes WalkedStage::block_on_its_way() const {
  Bytes most;
  if (!run.strategy.offload.activations || !autograd()) return most;
  for (const WalkedChunk& chunk : chunks) {
    for (const Layer& layer : chunk.memory->layers().kinds())
      most = std::max(most, layer.stored_less);
  }
  return most;
}

int WalkedStage::followed_microbatches() const {
  const int all = shape.num_microbatches, p = shape.stages;
  if (shape.schedule == PipelineSchedule::OneForwardOneBackward)
    return std::min(all, warmup_passes(shape, number) + kSteadyMicroBatches);
  if (shape.schedule == PipelineSchedule::DualPipe) return std::min(all, 2 * p + kSteadyOfDualPipe);
  if (shape.schedule != PipelineSchedule::Interleaved || all % p != 0) return all;
  return std::min(all, kRoundsOfInterleaving * p);
}

bool WalkedStage::leaves_alone() const {
  return autograd() && !rules.units.freed && shape.schedule <= PipelineSchedule::Interleaved;
}

std::optional<int> WalkedStage::passes_to_peak() const {
  if (!leaves_alone() || rules.gradients_come_and_go()) return std::nullopt;
  const int p = shape.stages, v = shape.virtual_stages, warmup = warmup_passes(shape, number);
  if (shape.schedule == PipelineSchedule::OneForwardOneBackward) return warmup + 2;
  if (shape.schedule != PipelineSchedule::Interleaved) return std::nullopt;
  if (chunks_are_alike()) return warmup + 2;
  return shape.num_microbatches % p == 0 ? std::optional(warmup + 2 * p * v) : std::nullopt;
}

namespace {

// Without its chunks.
WalkedStage walked_stage(const Run& run, const StageContents& contents, int number) {
  const StageBytes bytes = stage_bytes(run, contents, number);
  return {.run = run,
          .number = number,
          .shape = pipeline_shape(run.strategy),
          .bytes = bytes,
          .rules = pass_rules(run, bytes, contents.blocks(number)),
          .chunks = std::vector<WalkedChunk>(static_cast<std::size_t>(contents.chunks()))};
}

// What is there between two passes.
template <class Amount>
struct Walk {
  Account<Amount> account{};
  std::vector<UnitState> units{};  // of each chunk
  Bytes under_reduction{};         // whole gradients
  int messages = 1;                // of one direction that are held at most
  int sent_forward = 0, sent_backward = 0;
};

bool makes_gradients(PassKind kind) {
  return kind == PassKind::Backward || kind == PassKind::DataGradient;
}

// A tensor goes to a neighbour and is held until enough later ones want to go the same way.
template <class Amount>
void send(Walk<Amount>& walk, const WalkedStage& stage, int& sent) {
  if (sent == walk.messages) return;
  ++sent;
  walk.account.take(MemoryKind::PipelineBuffers, stage.rules.residual);
}

template <class Amount>
void end_reduction(Walk<Amount>& walk) {
  walk.account.give(MemoryKind::GradientBuffers, std::exchange(walk.under_reduction, Bytes(0.0)));
}

// While something is received.
template <class Amount>
void receive(Walk<Amount>& walk, MemoryKind received, Bytes size) {
  if (walk.under_reduction > Bytes(0.0)) walk.account.pass(received, size, kResidualStream);
}

// A pass and what was there when its layers began.  None: gradients of the weights alone.
template <class Amount>
struct Followed {
  Amount before{};
  const ChunkPass<Amount>* pass = nullptr;
};

template <class Amount>
Followed<Amount> run(Walk<Amount>& walk, const ChunkPass<Amount>& pass) {
  const Amount before = walk.account.now();
  walk.account.run(pass.rise().amount, pass.net);
  return {before, &pass};
}

template <class Amount>
Followed<Amount> forward(Walk<Amount>& walk, const WalkedStage& stage, int number) {
  const WalkedChunk& chunk = stage.chunk(number);
  UnitState& units = walk.units[static_cast<std::size_t>(number)];
  if (!chunk.model_chunk.embedding) receive(walk, MemoryKind::Activations, stage.rules.residual);
  end_reduction(walk);
  const Followed<Amount> done = run(walk, chunk.memory->passes<Amount>().forward(units));
  units.whole = !stage.rules.units.frees_after_forward();
  units.head_gradient_begun = chunk.model_chunk.head && stage.rules.loss_makes_gradient;
  if (!stage.autograd() && !chunk.model_chunk.head) send(walk, stage, walk.sent_forward);
  return done;
}

template <class Amount>
Followed<Amount> backward(Walk<Amount>& walk, const WalkedStage& stage, int number,
                          BackwardTurn turn) {
  const WalkedChunk& chunk = stage.chunk(number);
  UnitState& units = walk.units[static_cast<std::size_t>(number)];
  if (!chunk.model_chunk.head) receive(walk, MemoryKind::ActivationGradients, stage.rules.residual);
  end_reduction(walk);
  const Followed<Amount> done = run(walk, chunk.memory->passes<Amount>().backward(units, turn));
  walk.under_reduction = done.pass->under_reduction;
  units.whole = !stage.rules.units.frees_after_backward(turn.last);
  units.head_gradient_begun = units.head_gradient_begun && !stage.rules.units.reduces(turn.last);
  if (!stage.autograd() && !chunk.model_chunk.embedding) send(walk, stage, walk.sent_backward);
  return done;
}

template <class Amount>
Followed<Amount> weight_gradients(Walk<Amount>& walk, Bytes inputs) {
  const Followed<Amount> done{walk.account.now()};
  walk.account.pass(Amount{});
  walk.account.give(MemoryKind::Activations, inputs, kWeightInputs);
  return done;
}

template <class Amount>
Followed<Amount> follow(Walk<Amount>& walk, const WalkedStage& stage, const PipelinePass& pass,
                        BackwardTurn turn) {
  const Bytes inputs = stage.chunk(pass.chunk).memory->weight_inputs();
  if (pass.kind == PassKind::Forward) return forward(walk, stage, pass.chunk);
  if (pass.kind == PassKind::WeightGradient) return weight_gradients(walk, inputs);
  const Followed<Amount> done = backward(walk, stage, pass.chunk, turn);
  if (pass.kind == PassKind::DataGradient)
    walk.account.take(MemoryKind::Activations, inputs, kWeightInputs);
  return done;
}

// A step.

template <class Amount>
Walk<Amount> walk_of(const WalkedStage& stage) {
  Walk<Amount> walk;
  for (const WalkedChunk& chunk : stage.chunks) chunk.memory->use(stage.rules);
  const MemoryTerms lasting = lasting_terms(stage.bytes, stage.run.framework);
  for (int i = 0; i < kNumMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    if (lasting[kind] > Bytes(0.0)) walk.account.take(kind, lasting[kind]);
  }
  walk.units.resize(stage.chunks.size());
  return walk;
}

// The loss, summed over micro-batches.
Bytes step_loss(const WalkedStage& stage) {
  return stage.autograd() ? Bytes(0.0) : size_of(DType::Fp32);
}

// The passes of so many micro-batches.  After each one `visit(pass, followed)`.
template <class Amount, class Visit>
void follow_all(Walk<Amount>& walk, const WalkedStage& stage, const PipelineShape& shape,
                const Visit& visit) {
  std::vector<int> seen(stage.chunks.size(), 0);  // backward passes of each chunk
  const int of_each = shape.layout().chunk_microbatches();
  for (const PipelinePass& pass : stage_order(shape, stage.number)) {
    int& backwards = seen[static_cast<std::size_t>(pass.chunk)];
    const BackwardTurn turn{.first = backwards == 0, .last = backwards + 1 == of_each};
    const Followed<Amount> followed = follow(walk, stage, pass, turn);
    backwards += makes_gradients(pass.kind);
    visit(pass, followed);
  }
}

// The same, or the first `count` of them, where nothing is there between passes but what they leave
// (WalkedStage::leaves_alone): of a run of equal passes, each of which leaves the same, the first or
// the last one rises highest.  Of those left out it is known that they change neither the peak nor,
// in the end, what is there (passes_to_peak).
template <class Amount, class Visit>
void follow_runs(Walk<Amount>& walk, const WalkedStage& stage, const PipelineShape& shape,
                 std::optional<int> count, const Visit& visit) {
  const auto follow_one = [&](const PipelinePass& pass) {
    ChunkPasses<Amount>& passes = stage.chunk(pass.chunk).memory->template passes<Amount>();
    const BackwardTurn turn{.first = pass.microbatch == 0,
                            .last = pass.microbatch + 1 == shape.num_microbatches};
    visit(pass, run(walk, pass.backward() ? passes.backward({}, turn) : passes.forward({})));
  };
  const Amount before = walk.account.now();
  visit_pass_runs(shape, stage.number, count.value_or(std::numeric_limits<int>::max()),
                  [&](const PassRun& equal) {
                    const auto follow_both = [&] {
                      follow_one(equal.first);
                      if (equal.second) follow_one(*equal.second);
                    };
                    const Amount start = walk.account.now();
                    follow_both();
                    if (equal.times == 1) return;
                    Amount change = walk.account.now();
                    change -= start;
                    walk.account.repeat(change, equal.times - 2);
                    follow_both();
                  });
  if (count) walk.account.return_to(before);
}

// As few of them as reach the peak.
template <class Amount, class Visit>
void follow_to_peak(Walk<Amount>& walk, const WalkedStage& stage, const PipelineShape& shape,
                    const Visit& visit) {
  if (!stage.leaves_alone()) return follow_all(walk, stage, shape, visit);
  follow_runs(walk, stage, shape, stage.passes_to_peak(), visit);
}

// Around `passes(shape)` of so many micro-batches what is there during all of them.
template <class Amount, class Passes>
void follow_passes(Walk<Amount>& walk, const WalkedStage& stage, int num_microbatches,
                   const Passes& passes) {
  PipelineShape shape = stage.shape;
  shape.num_microbatches = num_microbatches;
  const bool deals_in_groups = shape.schedule == PipelineSchedule::Interleaved;
  walk.messages = deals_in_groups ? messages_under_way(shape) : 1;
  const Bytes gathered = stage.rules.units.counted() ? Bytes(0.0) : stage.bytes.gathered,
              on_its_way = stage.block_on_its_way();
  walk.account.take(MemoryKind::Gathered, gathered);
  walk.account.take(MemoryKind::Activations, on_its_way, kOnItsWay);
  walk.account.take(MemoryKind::Buffers, step_loss(stage));
  passes(shape);
  walk.account.give(MemoryKind::Gathered, gathered);
  walk.account.give(MemoryKind::Activations, on_its_way, kOnItsWay);
  walk.account.give(
      MemoryKind::PipelineBuffers,
      static_cast<double>(walk.sent_forward + walk.sent_backward) * stage.rules.residual);
  end_reduction(walk);
}

// Gradients of which every tensor rank has a part, side by side, and the norm of all.
template <class Amount>
void sum_partial_gradients(Account<Amount>& account, const WalkedStage& stage, int shard) {
  double partial = 0.0;
  if (stage.run.strategy.tp > 1) {
    const double values =
        partial_gradients(stage.run.model, stage.run.strategy, stage.model_chunks(), shard);
    partial = values * storage_of(stage.run.strategy, stage.run.framework).gradient_bytes;
  }
  account.pass(MemoryKind::Temporaries, Bytes(partial));
  account.pass(MemoryKind::Temporaries, 2.0 * size_of(DType::Fp32));
}

// The optimizer's step.
template <class Amount>
void update(Account<Amount>& account, const WalkedStage& stage, int shard) {
  const StageBytes& bytes = stage.bytes;
  const bool persist = stage.run.framework.gradients.persist;
  if (!stage.autograd()) sum_partial_gradients(account, stage, shard);
  if (!persist && stage.blocks() == 0) account.take(MemoryKind::Gradients, bytes.gradients);
  account.take(MemoryKind::MainGradients, bytes.main_gradients);
  account.pass(MemoryKind::Temporaries, bytes.temporaries);
  account.give(MemoryKind::MainGradients, bytes.main_gradients);
  if (!persist) account.give(MemoryKind::Gradients, bytes.gradients);
  account.give(MemoryKind::Buffers, step_loss(stage));
}

// Points.

void add_point(std::vector<MemoryPoint>& points, const char* phase, const MemoryTerms& there) {
  points.push_back({.phase = phase, .allocated = there.total(), .terms = there});
}

// Of a part of a pass, where the chunk has it.
void add_part(std::vector<MemoryPoint>& points, const char* phase, const MemoryTerms& before,
              const HighPoint<MemoryTerms>& rise, int first_layer) {
  if (!rise.is_there()) return;
  add_point(points, phase, before + rise.amount);
  if (rise.layer >= 0) points.back().layer = first_layer + rise.layer;
}

void raise(MemoryPoint& point, const MemoryTerms& there) {
  point.allocated = there.total(), point.terms = there;
}

// Of the layers, and of the loss where the chunk has the head.  `highest`: of the pass and of what
// is received, sent and taken around it, which belongs to no layer.
void set_points(std::vector<MemoryPoint>& points, const PipelinePass& pass, const ModelChunk& chunk,
                const Followed<MemoryTerms>& followed, const HighPoint<MemoryTerms>& highest) {
  const auto& [before, done] = followed;
  points.clear();
  if (!done) add_point(points, "weight gradients", before);
  if (pass.kind == PassKind::Forward)
    add_part(points, "forward", before, done->of_layers, chunk.first_layer);
  if (done) add_part(points, "loss", before, done->of_loss, chunk.first_layer);
  if (makes_gradients(pass.kind))
    add_part(points, "backward", before, done->of_layers, chunk.first_layer);
  const auto above = [&](const MemoryPoint& point) {
    return point.allocated.value() >= highest.total;
  };
  if (std::any_of(points.begin(), points.end(), above)) return;
  MemoryPoint& own = pass.backward() ? points.back() : points.front();
  raise(own, highest.amount);
  own.layer.reset();
}

// A loss that goes back at once is one point.
void add_points(std::vector<MemoryPoint>& points, const std::vector<MemoryPoint>& added) {
  for (const MemoryPoint& point : added) {
    const bool goes_on = std::string_view(point.phase) == "loss" &&
                         std::string_view(points.back().phase) == "loss" &&
                         point.micro_batch == points.back().micro_batch;
    if (!goes_on)
      points.push_back(point);
    else if (point.allocated > points.back().allocated)
      raise(points.back(), point.terms);
  }
}

// After the last pass: the update, and idle again.
void add_end_of_step(std::vector<MemoryPoint>& points, Walk<MemoryTerms>& walk,
                     const WalkedStage& stage) {
  walk.account.forget_peak();
  walk.account.pass(MemoryTerms{});
  update(walk.account, stage, 0);
  add_point(points, "update", walk.account.highest().amount);
  add_point(points, "idle", walk.account.now());
}

// Of a pass among the first so many micro-batches of each end of the pipeline.
int number_in_step(const PipelinePass& pass, const WalkedStage& stage, int num_microbatches) {
  const int all = stage.shape.num_microbatches;
  if (pass.microbatch + 1 == num_microbatches) return all - 1;
  const bool from_the_other_end =
      stage.shape.schedule == PipelineSchedule::DualPipe && pass.microbatch >= num_microbatches / 2;
  return pass.microbatch + (from_the_other_end ? (all - num_microbatches) / 2 : 0);
}

}  // namespace

StageWalks::StageWalks(const Run& run, const LayerPrices& prices, const StageContents& contents)
    : run_(run),
      contents_(contents),
      own_chunks_(std::in_place, run, contents.rank()),
      chunks_(*own_chunks_),
      kinds_(contents.stages().kinds().size()) {
  use(prices);
}

StageWalks::StageWalks(const Run& run, const StageContents& contents, SharedChunks& chunks)
    : run_(run), contents_(contents), chunks_(chunks), kinds_(contents.stages().kinds().size()) {}

StageWalks::~StageWalks() = default;

void StageWalks::use(const LayerPrices& prices) {
  prices_ = &prices;
  of_chunk_kind_.assign(contents_.stages().num_chunk_kinds(), nullptr);
}

// As of that stage.
WalkedStage& StageWalks::kind_of(int stage) {
  std::unique_ptr<WalkedStage>& known = kinds_[contents_.stages().kind(stage)];
  if (!known) known = std::make_unique<WalkedStage>(walked_stage(run_, contents_, stage));
  known->number = stage;
  for (int i = 0; i < contents_.chunks(); ++i) {
    WalkedChunk& chunk = known->chunks[static_cast<std::size_t>(i)];
    chunk.model_chunk = contents_.chunk(stage, i);
    ChunkMemory*& memory = of_chunk_kind_[contents_.stages().chunk_kind(stage, i)];
    if (!memory) memory = &chunks_.of(*prices_, chunk.model_chunk);
    chunk.memory = memory;
  }
  return *known;
}

StagePeak StageWalks::peak(int stage, int shard) {
  const WalkedStage& own = kind_of(stage);
  auto walk = walk_of<double>(own);
  const bool in_groups = run_.framework.update.parameters_at_once > 0.0;
  StagePeak result{.idle = Bytes(walk.account.now()),
                   .temporaries = in_groups ? Bytes(0.0) : own.bytes.temporaries,
                   .host = own.bytes.host};
  Bytes on_host = result.host;
  bool turned = false;
  const auto note = [&](const PipelinePass& pass, const Followed<double>& followed) {
    if (pass.backward() && !std::exchange(turned, true))
      result.after_forward = Bytes(followed.before);
    if (pass.kind == PassKind::WeightGradient) return;
    on_host += (pass.backward() ? -1.0 : 1.0) * own.chunk(pass.chunk).memory->offloaded();
    result.host_peak = std::max(result.host_peak, on_host);
  };
  follow_passes(walk, own, own.followed_microbatches(),
                [&](const PipelineShape& shape) { follow_to_peak(walk, own, shape, note); });
  result.host_peak = std::max(result.host_peak, result.host + own.bytes.host_update);
  const double of_passes = walk.account.highest().total;
  update(walk.account, own, shard);
  result.peak = Bytes(walk.account.highest().total);
  result.in_update = result.peak > Bytes(of_passes);
  return result;
}

std::vector<MemoryPoint> StageWalks::points(int stage, bool whole_step) {
  const WalkedStage& own = kind_of(stage);
  auto walk = walk_of<MemoryTerms>(own);
  std::vector<MemoryPoint> points, added;
  add_point(points, "idle", walk.account.now());
  const int all = own.shape.num_microbatches,
            num_microbatches = whole_step ? all : own.followed_microbatches();
  points.reserve(2 * own.chunks.size() * static_cast<std::size_t>(num_microbatches) + 3);
  int number = 0;              // of the pass
  int passes = 0, blocks = 0;  // in flight
  const auto add = [&](const PipelinePass& pass, const Followed<MemoryTerms>& done) {
    const ModelChunk& chunk = own.chunk(pass.chunk).model_chunk;
    if (!pass.backward()) ++passes, blocks += chunk.blocks;
    set_points(added, pass, chunk, done, walk.account.highest());
    for (MemoryPoint& point : added) {
      point.pass = number;
      point.micro_batch = number_in_step(pass, own, num_microbatches);
      point.passes_in_flight = passes, point.blocks_in_flight = blocks;
    }
    ++number;
    add_points(points, added);
    if (makes_gradients(pass.kind)) --passes, blocks -= chunk.blocks;
    walk.account.forget_peak();
  };
  follow_passes(walk, own, num_microbatches,
                [&](const PipelineShape& shape) { follow_all(walk, own, shape, add); });
  add_end_of_step(points, walk, own);
  return points;
}

MemoryPoint StageWalks::highest(int stage) {
  const WalkedStage& own = kind_of(stage);
  auto walk = walk_of<MemoryTerms>(own);
  std::vector<MemoryPoint> points, added;
  add_point(points, "idle", walk.account.now());
  MemoryPoint highest = points.front();
  const auto note = [&](const std::vector<MemoryPoint>& there) {
    for (const MemoryPoint& point : there)
      if (point.allocated > highest.allocated) highest = point;
  };
  const auto look_at = [&](const PipelinePass& pass, const Followed<MemoryTerms>& done) {
    const HighPoint<MemoryTerms>& of_pass = walk.account.highest();
    if (of_pass.total > highest.allocated.value()) {
      set_points(added, pass, own.chunk(pass.chunk).model_chunk, done, of_pass);
      note(added);
    }
    walk.account.forget_peak();
  };
  follow_passes(walk, own, own.followed_microbatches(),
                [&](const PipelineShape& shape) { follow_to_peak(walk, own, shape, look_at); });
  add_end_of_step(points, walk, own);
  note(points);
  return highest;
}

TensorAmounts StageWalks::amounts_at_peak(int stage) {
  const WalkedStage& own = kind_of(stage);
  auto walk = walk_of<TensorAmounts>(own);
  const auto look_on = [](const PipelinePass&, const Followed<TensorAmounts>&) {};
  follow_passes(walk, own, own.followed_microbatches(),
                [&](const PipelineShape& shape) { follow_all(walk, own, shape, look_on); });
  update(walk.account, own, 0);
  return walk.account.highest().amount;
}

StagePeak stage_peak(const Run& run, const LayerPrices& prices, const StageContents& contents,
                     int stage, int shard) {
  return StageWalks(run, prices, contents).peak(stage, shard);
}

std::vector<MemoryPoint> stage_points(const Run& run, const LayerPrices& prices,
                                      const StageContents& contents, int stage, bool whole_step) {
  return StageWalks(run, prices, contents).points(stage, whole_step);
}

}  // namespace llmsim::sim
