// The forms of model parallelism whose single ranks tests look at.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hwdb/models/catalogue.h"
#include "runtime/model/trainer.h"

namespace llmsim::runtime {

struct Form {
  std::string name;
  int tensor = 1;
  bool sequence_parallel = false;
  int stages = 1;
  sim::PipelineSchedule schedule = sim::PipelineSchedule::OneForwardOneBackward;
  int virtual_stages = 1;
  int data = 1;
  sim::Sharding sharding = sim::Sharding::None;
  int shard_size = 0;

  int ranks() const { return tensor * stages * data; }
};

// ZeRO and HSDP beside tensor ranks and stages.
inline std::vector<Form> sharded_forms() {
  using enum sim::PipelineSchedule;
  std::vector<Form> list;
  const auto add = [&](Form form, const char* name, sim::Sharding sharding) {
    form.name += std::string("_") + name, form.sharding = sharding;
    list.push_back(form);
  };
  for (const auto& [name, sharding] :
       {std::pair{"zero1", sim::Sharding::Zero1}, std::pair{"zero2", sim::Sharding::Zero2},
        std::pair{"zero3", sim::Sharding::Zero3}}) {
    add({.name = "tp_2_dp_3", .tensor = 2, .data = 3}, name, sharding);
    add({.name = "tp_2_sp_dp_4", .tensor = 2, .sequence_parallel = true, .data = 4}, name,
        sharding);
    add({.name = "pp_2_dp_3", .stages = 2, .data = 3}, name, sharding);
    add({.name = "tp_2_sp_pp_2_dp_2",
         .tensor = 2,
         .sequence_parallel = true,
         .stages = 2,
         .data = 2},
        name, sharding);
    add({.name = "tp_2_sp_pp_2_interleaved_dp_2",
         .tensor = 2,
         .sequence_parallel = true,
         .stages = 2,
         .schedule = Interleaved,
         .virtual_stages = 2,
         .data = 2},
        name, sharding);
  }
  add({.name = "tp_2_sp_dp_4", .tensor = 2, .sequence_parallel = true, .data = 4, .shard_size = 2},
      "hsdp", sim::Sharding::Hsdp);
  add({.name = "pp_2_dp_4", .stages = 2, .data = 4, .shard_size = 2}, "hsdp", sim::Sharding::Hsdp);
  return list;
}

inline std::vector<Form> forms() {
  using enum sim::PipelineSchedule;
  return {
      {.name = "one"},
      {.name = "tp_2", .tensor = 2},
      {.name = "tp_4", .tensor = 4},
      {.name = "tp_2_sp", .tensor = 2, .sequence_parallel = true},
      {.name = "tp_4_sp", .tensor = 4, .sequence_parallel = true},
      {.name = "pp_2", .stages = 2},
      {.name = "pp_4", .stages = 4},
      {.name = "pp_2_gpipe", .stages = 2, .schedule = GPipe},
      {.name = "pp_2_interleaved", .stages = 2, .schedule = Interleaved, .virtual_stages = 2},
      {.name = "pp_3_interleaved_uneven",
       .stages = 3,
       .schedule = Interleaved,
       .virtual_stages = 2},
      {.name = "tp_2_pp_2", .tensor = 2, .stages = 2},
      {.name = "tp_2_sp_pp_2_dp_2", .tensor = 2, .sequence_parallel = true, .stages = 2, .data = 2},
      {.name = "tp_4_sp_pp_4_interleaved_dp_2",
       .tensor = 4,
       .sequence_parallel = true,
       .stages = 4,
       .schedule = Interleaved,
       .virtual_stages = 2,
       .data = 2}};
}

// Five micro-batches a data rank, and a layer more than there are chunks; where units are divided
// as many layers as chunks, and no tied table over stages, which could not be divided.
inline void divide(TrainingSetup& setup, const Form& form) {
  const bool sharded = form.sharding != sim::Sharding::None;
  setup.model.num_layers = form.stages * form.virtual_stages + (sharded ? 0 : 1);
  if (sharded && form.stages > 1) setup.model.tied_embeddings = false;
  setup.strategy.sharding = form.sharding;
  setup.strategy.shard_size = form.shard_size;
  setup.model.num_kv_heads = 4;
  setup.strategy.tp = form.tensor;
  setup.strategy.sequence_parallel = form.sequence_parallel;
  setup.strategy.pp = form.stages;
  setup.strategy.pipeline_schedule = form.schedule;
  setup.strategy.virtual_stages = form.virtual_stages;
  setup.strategy.dp = form.data;
  setup.strategy.global_batch = 5 * form.data;
}

inline std::vector<sim::Recompute> main_recomputes() {
  using sim::RecomputeKind;
  return {
      {.kind = RecomputeKind::None},
      {.kind = RecomputeKind::Full},
      {.kind = RecomputeKind::EveryN, .every_n = 2},
      {.kind = RecomputeKind::Selective,
       .modules = {.core_attention = true, .norms = true, .shared_experts = true, .mla_up = true}},
      {.kind = RecomputeKind::Selective,
       .modules = {.core_attention = false, .mlp = true, .moe = true}}};
}

// With the first blocks alone, and every choice of modules.
inline std::vector<sim::Recompute> all_recomputes() {
  using sim::RecomputeKind;
  std::vector<sim::Recompute> list = main_recomputes();
  list.push_back({.kind = RecomputeKind::Full, .blocks = 1});
  for (const bool moe : {false, true}) {
    list.push_back({.kind = RecomputeKind::Selective,
                    .modules = {.core_attention = false, .mlp = !moe, .moe = moe}});
  }
  list.push_back({.kind = RecomputeKind::Selective,
                  .modules = {.core_attention = false, .expert_activation = true}});
  for (const bool activation : {false, true}) {
    list.push_back(
        {.kind = RecomputeKind::Selective,
         .modules = {.core_attention = false, .activation = activation, .shared_experts = true}});
  }
  for (const bool attention : {false, true})
    list.push_back({.kind = RecomputeKind::Selective,
                    .modules = {.core_attention = attention, .mla_up = true}});
  for (unsigned modules = 1; modules < 16; ++modules) {
    list.push_back({.kind = RecomputeKind::Selective,
                    .modules = {.core_attention = (modules & 1U) != 0,
                                .mlp = (modules & 2U) != 0,
                                .moe = (modules & 2U) != 0,
                                .norms = (modules & 4U) != 0,
                                .activation = (modules & 8U) != 0}});
  }
  return list;
}

// Large models in bf16 with sequence parallelism, on the meta device.
struct LargeTraining {
  std::string name;
  std::string model;
  int stages = 1;
  sim::PipelineSchedule schedule = sim::PipelineSchedule::OneForwardOneBackward;
  int virtual_stages = 1;
  sim::Recompute recompute{};
  int micro_batches = 4;
};

inline std::vector<LargeTraining> large_trainings() {
  using sim::RecomputeKind;
  return {{.name = "llama_3_70b_tp_8_pp_4", .model = "llama-3-70b", .stages = 4},
          {.name = "llama_3_70b_tp_8_pp_4_interleaved_recompute",
           .model = "llama-3-70b",
           .stages = 4,
           .schedule = sim::PipelineSchedule::Interleaved,
           .virtual_stages = 5,
           .recompute = {.kind = RecomputeKind::Full}},
          {.name = "llama_405b_tp_8_pp_16",
           .model = "llama-3.1-405b",
           .stages = 16,
           .micro_batches = 16},
          {.name = "llama_405b_tp_8_pp_16_selective",
           .model = "llama-3.1-405b",
           .stages = 16,
           .recompute = {.kind = RecomputeKind::Selective}}};
}

inline TrainingSetup setup_of(const LargeTraining& large) {
  TrainingSetup setup;
  setup.model = hwdb::find_model(large.model)->model;
  setup.device = c10::kMeta;
  setup.strategy.tp = 8;
  setup.strategy.sequence_parallel = true;
  setup.strategy.pp = large.stages;
  setup.strategy.pipeline_schedule = large.schedule;
  setup.strategy.virtual_stages = large.virtual_stages;
  setup.strategy.recompute = large.recompute;
  setup.strategy.global_batch = large.micro_batches;
  return setup;
}

// The first, one in the middle and the last; on its last tensor rank.
inline std::vector<int> some_stages(const LargeTraining& large) {
  return {0, large.stages / 2, large.stages - 1};
}

}  // namespace llmsim::runtime
