// A measured run as llmsim calibrate site reads it.
#pragma once

#include <sstream>
#include <string>

namespace llmsim::cli {

// A run of Llama 3 8B on 16 H100 under FSDP2; without a step time (0 s) nothing is measured.
inline std::string run_text(const std::string& id, double step_time, int global_batch = 64) {
  std::ostringstream text;
  text << R"({"id": ")" << id << R"(", "model": {"name": "llama-3-8b", "seq_len": 4096}, )"
       << R"("hardware": {"accelerator": "h100_sxm", "num_devices": 16}, )"
       << R"("training": {"framework": "fsdp2", "precision": "bf16", "sharding": "zero3", )"
       << R"("micro_batch": 1, "global_batch": )" << global_batch << "}";
  if (step_time > 0.0)
    text << R"(, "measured": {"step_time_s": )" << step_time << R"(, "outcome": "ok"}, )"
         << R"("scored": {"step_time": true, "memory": false, "outcome": false})";
  text << "}";
  return text.str();
}

// The same with a peak of memory in bytes.
inline std::string peak_text(const std::string& id, double peak, const std::string& kind,
                             int micro_batch = 1) {
  std::ostringstream text;
  text.precision(17);
  text << R"({"id": ")" << id << R"(", "model": {"name": "llama-3-8b", "seq_len": 4096}, )"
       << R"("hardware": {"accelerator": "h100_sxm", "num_devices": 16}, )"
       << R"("training": {"framework": "fsdp2", "precision": "bf16", "sharding": "zero3", )"
       << R"("micro_batch": )" << micro_batch << R"(, "global_batch": 64}, )"
       << R"("measured": {"peak_memory_bytes": )" << peak << R"(, "memory_kind": ")" << kind
       << R"(", "outcome": "ok"}, )"
       << R"("scored": {"step_time": false, "memory": true, "outcome": false}})";
  return text.str();
}

}  // namespace llmsim::cli
