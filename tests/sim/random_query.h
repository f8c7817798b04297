// Plans of all kinds, for properties that hold whatever is asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/search/plan_query.h"
#include "tests/sim/random_run.h"

namespace llmsim::sim {

// Derived fields that are pinned and values that are banned, of some queries.
inline void pin_and_ban(PlanQuery& query, RandomChoice& choose) {
  if (choose.below(6) == 0) query.restriction["sequence_parallel"] = {choose.yes()};
  if (choose.below(6) == 0) query.restriction["embeddings_as_layers"] = {choose.yes()};
  if (choose.below(4) == 0)
    query.excluded["sharding"] = {std::string("zero1"), std::string("none")};
  if (choose.below(4) == 0) query.excluded["tp"] = {std::int64_t{1}};
  if (choose.below(4) == 0) query.excluded["virtual_stages"] = {std::int64_t{1}};
}

// Measured peaks of the run in other layouts, which may disagree.
inline PeakCorrection random_peaks(const Run& run, RandomChoice& choose) {
  std::vector<PeakObservation> peaks;
  for (int i = choose.below(4); i >= 0; --i) {
    PeakObservation peak{.id = "a", .kind = "device", .problem = peak_problem(run), .slopes = {}};
    for (double& trait : peak.layout) trait = choose.of({0.0, 0.0, 0.5, 1.0, 2.0});
    peak.slopes = {.allocated = choose.of({1.0, 0.8}), .gaps = 0.1, .context = 0.1};
    peak.residual = choose.of({-0.5, -0.1, 0.1, 0.2, 0.6});
    peaks.push_back(std::move(peak));
  }
  return peak_correction(peaks, {}, peak_problem(run));
}

// One query of small sizes; what it holds changes with the seed.
inline PlanQuery random_query(unsigned seed) {
  RandomChoice choose(seed);
  PlanQuery query;
  const int devices = choose.of({1, 2, 3, 4, 4, 6, 8});
  Transformer& model = query.base.model = random_model(choose);
  model.num_layers = 2 + choose.below(6);
  if (model.layer_pattern)
    model.layer_pattern->resize(static_cast<std::size_t>(model.num_layers), '*');
  if (model.moe) model.moe->num_dense_layers = choose.below(2);
  model.seq_len = choose.of({512, 1024, 2048});
  query.base.framework = random_framework(choose);
  query.base.cluster = ideal_cluster(devices);
  query.base.cluster.devices_per_node = choose.of({2, 4, 8});
  if (choose.yes()) query.base.cluster.fabric.devices = query.base.cluster.devices_per_node;
  Device& device = query.base.cluster.device;
  device.usable_memory = choose.of({0.5, 1.0, 2.0, 4.0, 80.0}) * GiB;
  device.context_memory = choose.of({0.0, 0.1}) * GiB;
  device.achieved.device_spread = choose.of({0.0, 0.02});
  device.achieved.kernel_time = choose.of({0.0, 2.0}) * us;
  query.base.framework.host.per_kernel = choose.of({0.0, 1.0, 10.0}) * us;
  Strategy& s = query.base.strategy;
  s.global_batch = choose.of({2, 4, 6, 8, 12});
  s.fused_cross_entropy = choose.yes();
  s.gradient_overlap = choose.yes(), s.gather_overlap = choose.yes();
  s.tp_overlap = choose.below(4) == 0;
  s.compile = choose.yes();
  s.moe_overlap = choose.below(4) == 0;
  s.offload.activations = choose.below(8) == 0;
  s.offload.optimizer = choose.below(8) == 0;
  s.precision = choose.of({Precision::Bf16, Precision::Bf16, Precision::Fp16, Precision::Fp32});
  if (choose.below(4) == 0)
    query.restriction["pipeline_schedule"] = {"1f1b", "interleaved", "gpipe", "zb-h1",
                                              "zb-v", "v-half",      "v-min", "dualpipe"};
  const std::vector<const char*> recomputes{
      "none",      "selective",   "selective=layernorm",  "full", "full=1", "full=2", "full/2",
      "every-n=2", "every-n=2/3", "selective=activation", "op",   "op=qkv"};
  const int ways = static_cast<int>(recomputes.size()), one = choose.below(ways),
            other = (one + 1 + choose.below(ways - 1)) % ways;
  for (const int way : {one, other})
    query.restriction["recompute"].emplace_back(recomputes[static_cast<std::size_t>(way)]);
  query.objective = choose.below(4) == 0 ? Objective::Memory : Objective::Throughput;
  query.top = choose.of({1, 5, 20});
  query.threads = choose.of({1, 1, 2});
  query.pareto = choose.below(3) > 0;
  query.tie = choose.of({0.0, 0.02, 0.1});
  query.prefer = choose.of({Preference::Simple, Preference::Simple, Preference::Fast});
  for (TraitError RatioErrors::*trait :
       {&RatioErrors::tensor_ranks, &RatioErrors::stages, &RatioErrors::micro_batch,
        &RatioErrors::sharded_parameters, &RatioErrors::recomputation,
        &RatioErrors::virtual_stages}) {
    (query.base.framework.ratios.*trait).bias = choose.of({0.0, -0.1, 0.1});
    (query.base.framework.ratios.*trait).error = choose.of({0.0, 0.05});
  }
  if (choose.yes()) query.headroom = choose.of({0.0, 0.1, 0.5});
  pin_and_ban(query, choose);
  query.base.framework.offers = {.tensor_ranks = choose.below(8) > 0,
                                 .context_ranks = choose.below(8) > 0,
                                 .pipelines = choose.below(8) > 0,
                                 .interleaving = choose.below(8) > 0,
                                 .uneven_stages = choose.below(8) > 0,
                                 .zero1 = choose.below(8) > 0,
                                 .zero2 = choose.below(4) > 0,
                                 .zero3 = choose.below(4) > 0,
                                 .hsdp = choose.below(4) > 0,
                                 .zero2_in_pipelines = choose.yes(),
                                 .zero3_in_pipelines = choose.yes(),
                                 .module_recompute = choose.yes(),
                                 .recompute_in_graphs = choose.yes(),
                                 .shards_in_graphs = choose.yes(),
                                 .tp_overlap = choose.yes(),
                                 .tp_overlap_compiled = choose.yes(),
                                 .mesh_order = choose.yes(),
                                 .deduplicated_dispatch = choose.yes(),
                                 .moe_overlap = choose.yes()};
  if (choose.below(3) == 0) query.base.measured_peaks = random_peaks(query.base, choose);
  return query;
}

}  // namespace llmsim::sim
