#include "sim/search/part_index.h"

#include <algorithm>
#include <utility>

namespace llmsim::sim {

bool HeldPasses::no_less_than(const HeldPasses& other) const {
  return part == other.part && backward == other.backward &&
         std::equal(passes.begin(), passes.end(), other.passes.begin(),
                    [](int a, int b) { return a >= b; });
}

namespace {

void note(std::vector<HeldPasses>& most, const HeldPasses& held) {
  for (const HeldPasses& other : most) {
    if (other.no_less_than(held)) return;
  }
  std::erase_if(most, [&](const HeldPasses& other) { return held.no_less_than(other); });
  most.push_back(held);
}

}  // namespace

std::vector<HeldPasses> most_held(const PipelineShape& shape, const IndexedStages& stages) {
  std::vector<HeldPasses> most;
  HeldPasses now;
  const int m = shape.num_microbatches, p = shape.stages, v = shape.virtual_stages,
            warmup = warmup_passes(shape, stages.first);
  const int count = stages.parts.size() == 1 ? warmup + 2
                    : m % p == 0             ? warmup + 2 * p * v
                                             : 2 * m * v;
  visit_first_passes(shape, stages.first, count, [&](const PipelinePass& pass) {
    now.part = stages.chunks[static_cast<std::size_t>(pass.chunk)];
    now.backward = pass.backward();
    note(most, now);
    now.passes[now.part] += pass.backward() ? -1 : 1;
  });
  return most;
}

const IndexedPipeline::MostHeld& IndexedPipeline::held(const PipelineShape& shape) {
  const auto [known, is_new] = held_.try_emplace(shape.num_microbatches);
  if (is_new) {
    for (const IndexedStages& equal : stages) known->second.push_back(most_held(shape, equal));
  }
  return known->second;
}

PartIndex::PartIndex(const PlanProblem& problem)
    : problem_(problem),
      anywhere_(!is_low_precision(matmul_dtype(problem.base.strategy.precision))) {
  for (const auto& [pp, dealt] : problem.pipelines) {
    for (const DealtPipeline& pipeline : dealt) {
      if (pipeline.counts) pipelines_[pp].push_back(indexed(pp, pipeline));
    }
  }
}

namespace {

bool same_parts(const IndexedStages& one, const IndexedStages& other) {
  return one.chunks == other.chunks &&
         std::equal(one.parts.begin(), one.parts.end(), other.parts.begin(), other.parts.end(),
                    [](const EqualParts& a, const EqualParts& b) { return a.id == b.id; });
}

void add(ModelChunk& sum, const ModelChunk& part) {
  sum.blocks += part.blocks, sum.moe_blocks += part.moe_blocks;
  sum.embedding = sum.embedding || part.embedding, sum.head = sum.head || part.head;
  sum.meets_embedding = sum.meets_embedding || part.meets_embedding;
  for (std::size_t slot = 0; slot < sum.of_kind.size(); ++slot)
    sum.of_kind[slot] += part.of_kind[slot];
}

}  // namespace

IndexedPipeline PartIndex::indexed(int pp, const DealtPipeline& dealt) {
  const Strategy strategy =
      problem_.space.strategy({.pp = pp}, dealt.choice, {}, problem_.space.recomputes().front());
  IndexedPipeline pipeline;
  pipeline.dealt = &dealt;
  for (const ModelChunk& part : model_parts(problem_.base.model, strategy))
    pipeline.parts.push_back(id_of(part));
  std::vector<PartId>& distinct = pipeline.distinct = pipeline.parts;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const PartId id : pipeline.parts)
    pipeline.places.push_back(static_cast<std::size_t>(
        std::lower_bound(distinct.begin(), distinct.end(), id) - distinct.begin()));
  const StageLayout layout = stage_layout(strategy);
  for (int stage = 0; stage < pp; ++stage) {
    IndexedStages next = stages_at(pipeline, layout, stage);
    if (!pipeline.stages.empty() && same_parts(pipeline.stages.back(), next))
      pipeline.stages.back().last = stage;
    else
      pipeline.stages.push_back(std::move(next));
  }
  return pipeline;
}

PartId PartIndex::id_of(const ModelChunk& part) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const ModelChunk& other) {
    return part == other &&
           ((anywhere_ && part.has_one_kind()) || part.first_layer == other.first_layer);
  });
  const auto id = static_cast<PartId>(found - parts_.begin());
  if (found == parts_.end()) parts_.push_back(part);
  return id;
}

IndexedStages PartIndex::stages_at(const IndexedPipeline& pipeline, const StageLayout& layout,
                                   int stage) {
  IndexedStages stages{.first = stage, .last = stage};
  ModelChunk sum;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    const PartId id = pipeline.parts[static_cast<std::size_t>(layout.part(stage, chunk))];
    const auto known = std::find_if(stages.parts.begin(), stages.parts.end(),
                                    [&](const EqualParts& equal) { return equal.id == id; });
    stages.chunks.push_back(static_cast<std::size_t>(known - stages.parts.begin()));
    if (known == stages.parts.end()) stages.parts.push_back({id, 0});
    ++stages.parts[stages.chunks.back()].count;
    add(sum, parts_[id]);
  }
  const auto found = anywhere_ ? std::find(sums_.begin(), sums_.end(), sum) : sums_.end();
  stages.sum = static_cast<std::size_t>(found - sums_.begin());
  if (found == sums_.end()) sums_.push_back(sum);
  return stages;
}

}  // namespace llmsim::sim
