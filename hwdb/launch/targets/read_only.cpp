// Programs whose files are read and not written.
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

LaunchTarget read_only_target(const char* name, const char* framework, LaunchParser parsed,
                              std::vector<std::string> beginnings) {
  return {name, {framework}, parsed, std::move(beginnings)};
}

std::vector<LaunchTarget> read_only_targets() {
  return {
      read_only_target("axolotl", "hf-trainer", parsed_yaml,
                       {"base_model sequence_len", "base_model datasets.0.path"}),
      read_only_target(
          "llamafactory", "hf-trainer", parsed_arguments,
          {"model_name_or_path finetuning_type", "model_name_or_path template cutoff_len",
           "model_name_or_path stage template"}),
      read_only_target("swift", "hf-trainer", parsed_arguments,
                       {"model dataset per_device_train_batch_size", "model dataset tuner_type",
                        "model dataset train_type", "model dataset torch_dtype"}),
      read_only_target("swift-megatron", "megatron-lm", parsed_arguments,
                       {"dataset max_length tensor_model_parallel_size",
                        "dataset max_length expert_model_parallel_size",
                        "dataset max_length micro_batch_size global_batch_size lr"}),
      read_only_target("torchtune", "torchtune", parsed_yaml,
                       {"model._component_", "policy_model._component_"}),
      read_only_target("nanotron", "nanotron", parsed_yaml,
                       {"parallelism.dp tokens.micro_batch_size"}),
      read_only_target("olmo", "olmo", parsed_yaml,
                       {"model.embedding_size device_train_microbatch_size",
                        "model.d_model tokenizer.identifier"}),
      read_only_target("llm-foundry", "llm-foundry", parsed_yaml,
                       {"train_loader.name device_train_microbatch_size global_train_batch_size"}),
      read_only_target(
          "litgpt", "litgpt", parsed_yaml,
          {"checkpoint_dir train.global_batch_size", "checkpoint_dir train.micro_batch_size",
           "out_dir train.global_batch_size", "out_dir train.micro_batch_size"}),
      read_only_target(
          "levanter", "levanter", parsed_yaml,
          {"trainer.mp trainer.num_train_steps", "trainer.train_batch_size trainer.num_train_steps",
           "trainer.mp trainer.train_batch_size"}),
      read_only_target(
          "automodel", "fsdp2", parsed_yaml,
          {"recipe step_scheduler.global_batch_size",
           "step_scheduler.global_batch_size step_scheduler.local_batch_size distributed.tp_size",
           "model._target_ step_scheduler.local_batch_size"}),
      read_only_target("verl", "fsdp2", parsed_overrides,
                       {"model.partial_pretrain", "model.partial_pretrain data.train_batch_size"}),
      read_only_target(
          "trl", "hf-trainer", parsed_arguments,
          {"model_name_or_path dataset_name", "model_name_or_path per_device_train_batch_size"}),
  };
}

}  // namespace llmsim::hwdb
