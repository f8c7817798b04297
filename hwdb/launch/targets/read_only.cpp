// Programs whose files are read and not written.
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

LaunchTarget reader_of(const char* name, const char* framework, LaunchParser parsed,
                       std::vector<std::string> beginnings) {
  return {name, {framework}, parsed, std::move(beginnings)};
}

std::vector<LaunchTarget> read_only_targets() {
  return {
      reader_of("axolotl", "hf-trainer", parsed_yaml,
                {"base_model sequence_len", "base_model datasets.0.path"}),
      reader_of("llamafactory", "hf-trainer", parsed_arguments,
                {"model_name_or_path finetuning_type", "model_name_or_path template cutoff_len",
                 "model_name_or_path stage template"}),
      reader_of("swift", "hf-trainer", parsed_arguments,
                {"model dataset per_device_train_batch_size", "model dataset tuner_type",
                 "model dataset train_type", "model dataset torch_dtype"}),
      reader_of("swift-megatron", "megatron-lm", parsed_arguments,
                {"dataset max_length tensor_model_parallel_size",
                 "dataset max_length expert_model_parallel_size",
                 "dataset max_length micro_batch_size global_batch_size lr"}),
      reader_of("torchtune", "torchtune", parsed_yaml,
                {"model._component_", "policy_model._component_"}),
      reader_of("nanotron", "nanotron", parsed_yaml, {"parallelism.dp tokens.micro_batch_size"}),
      reader_of("olmo", "olmo", parsed_yaml,
                {"model.embedding_size device_train_microbatch_size",
                 "model.d_model tokenizer.identifier"}),
      reader_of("llm-foundry", "llm-foundry", parsed_yaml,
                {"train_loader.name device_train_microbatch_size global_train_batch_size"}),
      reader_of("litgpt", "litgpt", parsed_yaml,
                {"checkpoint_dir train.global_batch_size", "checkpoint_dir train.micro_batch_size",
                 "out_dir train.global_batch_size", "out_dir train.micro_batch_size"}),
      reader_of(
          "levanter", "levanter", parsed_yaml,
          {"trainer.mp trainer.num_train_steps", "trainer.train_batch_size trainer.num_train_steps",
           "trainer.mp trainer.train_batch_size"}),
      reader_of(
          "automodel", "fsdp2", parsed_yaml,
          {"recipe step_scheduler.global_batch_size",
           "step_scheduler.global_batch_size step_scheduler.local_batch_size distributed.tp_size",
           "model._target_ step_scheduler.local_batch_size"}),
      reader_of("verl", "fsdp2", parsed_overrides,
                {"model.partial_pretrain", "model.partial_pretrain data.train_batch_size"}),
      reader_of(
          "trl", "hf-trainer", parsed_arguments,
          {"model_name_or_path dataset_name", "model_name_or_path per_device_train_batch_size"}),
  };
}

}  // namespace llmsim::hwdb
