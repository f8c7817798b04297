// A prediction with round figures, made by hand, for the tests of the reports.
#pragma once

#include "sim/predict.h"

namespace llmsim::reports {

inline sim::Run sample_run() {
  sim::Run run;
  run.id = "sample";
  run.model = {.name = "toy",
               .num_layers = 2,
               .hidden_size = 64,
               .num_heads = 8,
               .num_kv_heads = 8,
               .head_dim = 8,
               .ffn_size = 128,
               .vocab_size = 100,
               .seq_len = 2048,
               .norm = sim::Norm::RmsNorm};
  run.cluster.id = "toy_box";
  run.cluster.device.id = "toy";
  run.cluster.num_devices = 8;
  run.cluster.network.node_bandwidth = 400 * sim::GBps;
  run.strategy.dp = 4;
  run.strategy.pp = 2;
  run.strategy.global_batch = 16;
  run.strategy.recompute = {.kind = sim::RecomputeKind::EveryN, .every_n = 2};
  run.facts = {{"assumed.model.seq_len", "2048", sim::Evidence::Assumed, "training length"},
               {"device.toy.peak", "1000 TFLOP/s", sim::Evidence::DataSheet, "vendor data sheet"},
               {"device.toy.memory_fraction", "0.9", sim::Evidence::Measured, "a benchmark"}};
  return run;
}

// 4 s a step: 2.5 s compute, 1 s bubble, 0.5 s exposed gradients.  3 GiB and 2 GiB at the peak of
// the two stages.
inline sim::Prediction sample_prediction() {
  sim::Prediction p{.run = sample_run()};
  p.step_time = sim::Seconds(4.0);
  p.interval = {sim::Seconds(3.0), sim::Seconds(5.0)};
  p.tokens_per_second_per_device = 1024.0;  // 16 * 2048 / 4 s / 8
  p.flops_per_device = 400 * sim::TFLOPS;
  p.mfu = 0.4;
  p.hfu = 0.5;
  p.conventions = {{.name = "6N",
                    .flops_per_step = sim::Flops(6080.0),
                    .flops_per_device = 380 * sim::TFLOPS,
                    .mfu = 0.38}};
  p.breakdown = {{"compute", sim::Seconds(2.5)},
                 {"bubble", sim::Seconds(1.0)},
                 {"dp_exposed", sim::Seconds(0.5)}};
  p.memory.peak = 3 * sim::GiB;
  p.memory.reserved = 3.5 * sim::GiB;
  p.memory.device = 4.5 * sim::GiB;
  p.memory.context = 1 * sim::GiB;
  p.memory.capacity = 10 * sim::GiB;
  p.memory.stages = {{.stage = 0,
                      .phase = "loss",
                      .peak = 3 * sim::GiB,
                      .terms = {{"weights", 1 * sim::GiB}, {"activations", 2 * sim::GiB}}},
                     {.stage = 1,
                      .phase = "loss",
                      .peak = 2 * sim::GiB,
                      .terms = {{"weights", 1 * sim::GiB}, {"logits", 1 * sim::GiB}}}};
  p.memory_peak = {.stage = 0,
                   .phase = "loss",
                   .micro_batch = 1,
                   .passes_in_flight = 2,
                   .blocks_in_flight = 2,
                   .parameters = 5e8};
  p.communication = {{.collective = "all_reduce",
                      .group = "dp",
                      .ranks = 4,
                      .size = 1 * sim::GiB,
                      .count = 2,
                      .time = sim::Seconds(1.0),
                      .exposed = sim::Seconds(0.5)}};
  p.model_flops = sim::Flops(6400.0);
  p.hardware_flops = sim::Flops(8000.0);
  p.parameters = sim::parameters(p.run.model);
  p.bubble = 0.25;
  return p;
}

// tp 3 with 8 heads: no figures.
inline sim::Prediction impossible_prediction() {
  sim::Prediction p{.run = sample_run()};
  p.run.strategy.tp = 3;
  p.run.strategy.dp = 3;
  p.infeasible = sim::Infeasible{.rule = "tp does not divide num_heads",
                                 .message = "tp = 3 does not divide num_heads = 8"};
  return p;
}

}  // namespace llmsim::reports
