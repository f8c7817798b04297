// Traces in the layout of PyTorch's profiler whose kernels take what is predicted, with faults that
// tests plant.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "calibrate/profile/predicted_step.h"

namespace llmsim::calibrate {

struct PlantedFaults {
  double wire = 1.0;         // collectives take so many times as long
  double elementwise = 1.0;  // so many times the memory-bound kernels, each as long as before
  sim::Seconds late{};       // rank 0 comes later to the collectives of data ranks
  sim::Seconds gap{};        // the device is idle longer
  sim::Seconds loading{};    // the host waits for data
  bool recomputes = false;   // whole blocks, unasked
};

// Serial steps, whose kernels are those of a prediction, part by part.
class KinetoWriter {
 public:
  KinetoWriter(const PredictedStep& predicted, int rank, const PlantedFaults& faults)
      : predicted_(predicted), rank_(rank), faults_(faults) {}

  std::string trace(int steps = 4) {
    text_ = "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":" + std::to_string(rank_) +
            "},\"traceEvents\":[";
    for (int i = 0; i < steps; ++i) add_step(i);
    return text_ + "]}";
  }

 private:
  void event(const char* category, const std::string& name, std::int64_t start,
             std::int64_t duration, const std::string& arguments = "") {
    const auto microseconds = [](std::int64_t time) {
      std::string digits = std::to_string(1000 + time % 1000);
      return std::to_string(time / 1000) + "." + digits.substr(1);
    };
    if (text_.back() != '[') text_ += ",\n";
    text_ += std::string("{\"ph\":\"X\",\"cat\":\"") + category + "\",\"name\":\"" + name +
             "\",\"pid\":0,\"tid\":7,\"ts\":" + microseconds(start) +
             ",\"dur\":" + microseconds(duration) + ",\"args\":{" + arguments + "}}";
  }
  static std::int64_t nanoseconds(sim::Seconds time) { return std::llround(1e9 * time.value()); }

  void kernels(const std::string& name, double count, sim::Seconds time,
               const std::string& arguments = "") {
    const std::int64_t number = std::llround(count), end = now_ + nanoseconds(time);
    for (std::int64_t i = 0; i < number; ++i) {
      const std::int64_t next = i + 1 == number ? end : now_ + (end - now_) / (number - i);
      event("kernel", name, now_, next - now_, arguments);
      now_ = next;
    }
  }
  void collective(const char* group, const char* name, sim::Seconds time, int calls) {
    if (time <= sim::Seconds(0.0)) return;
    kernels(std::string("ncclDevKernel_") + name + "_Sum_bf16_RING_LL", calls, time,
            std::string("\"Collective name\":\"") + name + "\",\"Process Group Name\":\"" + group +
                "\",\"Process Group Description\":\"mesh_" + group + "\"");
  }
  void idle(sim::Seconds time) { now_ += nanoseconds(time); }
  sim::Seconds of(StepPart part) const { return predicted_.parts[part]; }

  void add_kernels() {
    const double again = faults_.recomputes ? 1.0 : 0.0, forward = predicted_.attention_calls;
    const double calls = 2.0 * forward + predicted_.recomputed_calls;
    const sim::Seconds attention = of(StepPart::Attention) / calls;
    kernels("nvjet_a", predicted_.gemm_kernels + again * predicted_.block_gemms,
            of(StepPart::Gemms) + again * predicted_.forward_gemms);
    const double attention_forward = (1.0 + again) * forward + predicted_.recomputed_calls;
    kernels("flash_fwd_kernel", attention_forward, attention_forward * attention);
    kernels("flash_bwd_kernel", forward, forward * attention);
    kernels(
        "vectorized_elementwise_kernel", faults_.elementwise * predicted_.memory_bound_kernels,
        faults_.elementwise * of(StepPart::MemoryBound) + again * predicted_.forward_memory_bound);
    kernels("cast_transpose_kernel", predicted_.cast_kernels, of(StepPart::Casts));
  }
  // Rank 0 is the slowest device: it is idle while others wait for it.
  void add_data_collectives() {
    const sim::Seconds wait = of(StepPart::Waiting) + faults_.late;
    const sim::Seconds wire = faults_.wire * of(StepPart::Data);
    if (rank_ == 0) idle(wait);
    collective("dp", "ReduceScatter", rank_ == 0 ? wire : wire + wait, 1);
  }
  void add_step(int number) {
    const std::int64_t start = now_;
    if (faults_.loading > sim::Seconds(0.0))
      event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            now_, nanoseconds(faults_.loading));
    idle(faults_.loading);
    add_kernels();
    collective("tp", "AllReduce", faults_.wire * of(StepPart::Tensor), 4);
    collective("cp", "AllGather", faults_.wire * of(StepPart::Context), 4);
    collective("ep", "AllToAll", faults_.wire * of(StepPart::Expert), 4);
    collective("pp", "SendRecv", of(StepPart::Pipeline), 4);
    add_data_collectives();
    kernels("multi_tensor_apply_kernel", 1.0, of(StepPart::Optimizer));
    idle(of(StepPart::Idle) + faults_.gap);
    event("user_annotation", "ProfilerStep#" + std::to_string(number), start, now_ - start);
  }

  const PredictedStep& predicted_;
  int rank_;
  PlantedFaults faults_;
  std::int64_t now_ = 1'717'000'000'000'000'000;
  std::string text_;
};

}  // namespace llmsim::calibrate
