// Programs whose files are read and not written.
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {
namespace {

using Parser = LaunchText (*)(const std::string& text, const std::string& path);

LaunchTarget reader(const char* name, const char* framework, Parser parsed,
                    std::vector<std::string> beginnings) {
  return {.name = name,
          .frameworks = {framework},
          .file_name = "",
          .parsed = parsed,
          .written = nullptr,
          .beginnings = std::move(beginnings)};
}

}  // namespace

std::vector<LaunchTarget> read_only_targets() {
  return {
      reader("axolotl", "hf-trainer", parsed_yaml,
             {"base_model sequence_len", "base_model datasets.0.path"}),
      reader("llamafactory", "hf-trainer", parsed_arguments,
             {"model_name_or_path finetuning_type", "model_name_or_path template cutoff_len",
              "model_name_or_path stage template"}),
      reader("swift", "hf-trainer", parsed_arguments,
             {"model dataset per_device_train_batch_size", "model dataset tuner_type",
              "model dataset train_type", "model dataset torch_dtype"}),
      reader("swift-megatron", "megatron-lm", parsed_arguments,
             {"dataset max_length tensor_model_parallel_size",
              "dataset max_length expert_model_parallel_size",
              "dataset max_length micro_batch_size global_batch_size lr"}),
      reader("torchtune", "torchtune", parsed_yaml,
             {"model._component_", "policy_model._component_"}),
      reader("nanotron", "nanotron", parsed_yaml, {"parallelism.dp tokens.micro_batch_size"}),
      reader("olmo", "olmo", parsed_yaml,
             {"model.embedding_size device_train_microbatch_size",
              "model.d_model tokenizer.identifier"}),
      reader("llm-foundry", "llm-foundry", parsed_yaml,
             {"train_loader.name device_train_microbatch_size global_train_batch_size"}),
      reader("litgpt", "litgpt", parsed_yaml,
             {"checkpoint_dir train.global_batch_size", "checkpoint_dir train.micro_batch_size",
              "out_dir train.global_batch_size", "out_dir train.micro_batch_size"}),
      reader(
          "levanter", "levanter", parsed_yaml,
          {"trainer.mp trainer.num_train_steps", "trainer.train_batch_size trainer.num_train_steps",
           "trainer.mp trainer.train_batch_size"}),
      reader(
          "automodel", "fsdp2", parsed_yaml,
          {"recipe step_scheduler.global_batch_size",
           "step_scheduler.global_batch_size step_scheduler.local_batch_size distributed.tp_size",
           "model._target_ step_scheduler.local_batch_size"}),
      reader("verl", "fsdp2", parsed_overrides,
             {"model.partial_pretrain", "model.partial_pretrain data.train_batch_size"}),
      reader("trl", "hf-trainer", parsed_arguments,
             {"model_name_or_path dataset_name", "model_name_or_path per_device_train_batch_size"}),
  };
}

}  // namespace llmsim::hwdb
