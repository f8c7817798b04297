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
      reader("axolotl", "hf-trainer", parsed_yaml, {"base_model sequence_len", "base_model datasets.0.path"}),
      reader("llamafactory", "hf-trainer", parsed_arguments,
             {"model_name_or_path finetuning_type", "model_name_or_path template cutoff_len", "model_name_or_path stage template"}),
      reader("swift", "hf-trainer", parsed_arguments,
             {"model dataset per_device_train_batch_size", "model dataset tuner_type", "model dataset train_type",
              "model dataset torch_dtype"}),
      reader("swift-megatron", "megatron-lm", parsed_arguments,
             {"dataset max_length tensor_model_parallel_size", "dataset max_length expert_model_parallel_size",
              "dataset max_length micro_batch_size global_batch_size lr"}),
      reader("trl", "hf-trainer", parsed_arguments,
             {"model_name_or_path dataset_name", "model_name_or_path per_device_train_batch_size"}),
  };
}

}  // namespace llmsim::hwdb
