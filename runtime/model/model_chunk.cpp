#include "runtime/model/model_chunk.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/library/memory_meter.h"
#include "runtime/model/layer_parameters.h"
#include "sim/model/layer_kinds.h"

namespace llmsim::runtime {
namespace {

sim::Recompute none() { return {.kind = sim::RecomputeKind::None}; }
sim::Recompute full() { return {.kind = sim::RecomputeKind::Full}; }

int shards_of(const sim::Strategy& strategy, int ranks) {
  return strategy.sharding == sim::Sharding::None ? 1 : ranks;
}

}  // namespace

ModelChunk::ModelChunk(const BlockContext& context, const sim::Strategy& strategy,
                       const sim::ModelChunk& layers, int first_block, LossPlan loss,
                       DataParallel& data)
    : context_(context),
      recompute_(strategy.recompute),
      offloads_checkpoints_(strategy.offload.activations),
      loss_(loss),
      data_(data) {
  const int shards = shards_of(strategy, strategy.shard_ranks());
  tied_here_ = layers.embedding && layers.head && context.model.tied_embeddings;
  if (layers.embedding) {
    const bool tied_across_stages = context.model.tied_embeddings && !layers.head;
    embedding_unit_ = std::make_unique<ParameterUnit>(
        "embedding", embedding_parameters(context.model, context.shape, tied_across_stages),
        shards);
    embedding_ = std::make_unique<Embedding>(context, *embedding_unit_);
  }
  for (int i = 0; i < layers.blocks; ++i) add_block(strategy, first_block + i);
  if (layers.head) {
    head_unit_ = std::make_unique<ParameterUnit>(
        "head", head_parameters(context.model, context.shape, tied_here_), shards);
    head_ = std::make_unique<Head>(context, *head_unit_,
                                   tied_here_ ? Parameter(*embedding_unit_, 0) : Parameter());
  }
}

// Routed experts that other ranks have too are exchanged with fewer ranks than the rest: they are a
// unit of their own.
void ModelChunk::add_block(const sim::Strategy& strategy, int layer) {
  const std::string name = "blocks." + std::to_string(layer), prefix = name + ".";
  const sim::LayerKind kind = sim::kind_of_layer(context_.model, layer);
  const bool moe = kind == sim::LayerKind::Moe, apart = moe && strategy.divides_experts();
  std::vector<ParameterShape> shapes = block_parameters(context_, kind, prefix), experts;
  const std::size_t first = shapes.size();
  if (moe) experts = expert_parameters(context_, prefix);
  if (!apart) shapes.insert(shapes.end(), experts.begin(), experts.end());
  block_units_.push_back(std::make_unique<ParameterUnit>(
      name, std::move(shapes), shards_of(strategy, strategy.shard_ranks())));
  expert_units_.push_back(
      apart ? std::make_unique<ParameterUnit>(prefix + "experts", std::move(experts),
                                              shards_of(strategy, strategy.expert_shard_ranks()))
            : nullptr);
  ExpertPlace place;
  if (apart) place = {.unit = expert_units_.back().get(), .first = 0};
  if (moe && !apart) place = {.unit = block_units_.back().get(), .first = first};
  blocks_.emplace_back(context_, *block_units_.back(), place);
}

// The units of a block.
template <typename Visit>
void ModelChunk::for_units_of(std::size_t block, const Visit& visit) const {
  visit(*block_units_[block]);
  if (expert_units_[block]) visit(*expert_units_[block]);
}

std::vector<ParameterUnit*> ModelChunk::units() const {
  std::vector<ParameterUnit*> units;
  if (embedding_unit_) units.push_back(embedding_unit_.get());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for_units_of(i, [&](ParameterUnit& unit) { units.push_back(&unit); });
  }
  if (head_unit_) units.push_back(head_unit_.get());
  return units;
}

// The last first; a tied table is the head's too.
std::vector<ParameterUnit*> ModelChunk::backward_units() const {
  std::vector<ParameterUnit*> order = units();
  std::reverse(order.begin(), order.end());
  if (tied_here_) std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

sim::Recompute ModelChunk::recompute_of(std::size_t block) const {
  if (recompute_.kind == sim::RecomputeKind::EveryN) {
    return static_cast<int>(block) % recompute_.every_n < recompute_.share ? full() : none();
  }
  if (recompute_.kind == sim::RecomputeKind::Full && recompute_.blocks > 0) {
    return static_cast<int>(block) < recompute_.blocks ? full() : none();
  }
  return recompute_;
}

bool ModelChunk::offloads(std::size_t block) const {
  return offloads_checkpoints_ && recompute_of(block).kind == sim::RecomputeKind::Full;
}

at::Tensor ModelChunk::forward(at::Tensor input, const MicroBatch& batch, ChunkTape& tape) {
  data_.begin_pass(units());
  at::Tensor x = std::move(input);
  if (embedding_) {
    data_.before_forward(*embedding_unit_);
    x = embedding_->forward(batch.ids);
    if (!tied_here_) data_.after_forward(*embedding_unit_);
  }
  tape.blocks.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for_units_of(i, [&](ParameterUnit& unit) { data_.before_forward(unit); });
    x = blocks_[i].forward(std::move(x), tape.blocks[i], recompute_of(i));
    if (offloads(i)) tape.blocks[i].x = copied_to_host(tape.blocks[i].x);
    for_units_of(i, [&](ParameterUnit& unit) { data_.after_forward(unit); });
  }
  if (!head_) return x;
  data_.before_forward(*head_unit_);
  if (loss_.chunks > 0) data_.provide_gradients(*(tied_here_ ? embedding_unit_ : head_unit_));
  x = head_->forward(std::move(x), batch.targets, tape.head, loss_.tokens_of_step, loss_.chunks);
  data_.after_forward(*head_unit_);
  if (tied_here_) data_.after_forward(*embedding_unit_);
  return x;
}

at::Tensor ModelChunk::backward(at::Tensor gradient, const MicroBatch& batch, ChunkTape tape,
                                bool last_of_step) {
  data_.begin_pass(backward_units());
  if (head_) {
    if (tied_here_) data_.before_backward(*embedding_unit_);
    data_.before_backward(*head_unit_);
    gradient = head_->backward(batch.targets, std::move(tape.head), loss_.tokens_of_step);
    data_.after_backward(*head_unit_, last_of_step);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    for_units_of(i, [&](ParameterUnit& unit) { data_.before_backward(unit); });
    if (offloads(i)) tape.blocks[i].x = copied_to_device(tape.blocks[i].x, gradient.device());
    gradient = blocks_[i].backward(std::move(gradient), std::move(tape.blocks[i]));
    for_units_of(i, [&](ParameterUnit& unit) { data_.after_backward(unit, last_of_step); });
  }
  if (!embedding_) return gradient;
  if (!tied_here_) data_.before_backward(*embedding_unit_);
  embedding_->backward(std::move(gradient), batch.ids);
  data_.after_backward(*embedding_unit_, last_of_step);
  return {};
}

}  // namespace llmsim::runtime
