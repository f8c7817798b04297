#include "runtime/measure/device_bench.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "runtime/kernels/adamw.h"
#include "runtime/library/cuda_graph.h"
#include "runtime/library/operator_call.h"
#include "runtime/measure/library_bench.h"
#include "sim/cost/kernels.h"

namespace llmsim::runtime {
namespace {

constexpr std::int64_t kSmallestCopy = std::int64_t{1} << 14;
constexpr int kCopyStep = 4;
constexpr std::int64_t kLargestPageable = std::int64_t{1} << 26;
constexpr std::int64_t kUpdateValues = std::int64_t{1} << 22;
constexpr std::int64_t kLargeUpdateValues = std::int64_t{1} << 26;  // of an accelerator's cache
constexpr int kLaunches = 100;                                      // in one timing of launches

double moved_by_copy(std::int64_t size) { return 2.0 * static_cast<double>(size); }

void add_copies(DeviceListing& all, const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes) {
    const at::TensorOptions options = all.fp32();
    all.add("stream_copy", std::to_string(size), moved_by_copy(size), [=] {
      // The same random block again and again: to draw gigabytes takes longer than to copy them.
      const at::Tensor from =
          at::randn({kSmallestCopy / 4}, options).repeat({size / kSmallestCopy});
      const at::Tensor to = at::empty_like(from);
      return [=] { to.copy_(from); };
    });
    const bool crosses_link = !options.device().is_cpu();
    for (const bool pinned : {true, false}) {
      for (const bool up : {true, false}) {
        if (!crosses_link && !(up && pinned)) continue;
        if (!pinned && size > kLargestPageable) continue;
        all.add("host_copy",
                std::string(up ? "to_device " : "to_host ") + (pinned ? "" : "pageable ") +
                    std::to_string(size),
                static_cast<double>(size), [=] {
                  const at::Tensor host = at::ones({size / 4}, options.device(at::kCPU));
                  const at::Tensor far = pinned && crosses_link ? host.pin_memory() : host;
                  const at::Tensor near = at::ones({size / 4}, options);
                  return [=] { up ? near.copy_(far, pinned) : far.copy_(near, pinned); };
                });
      }
    }
  }
}

void add_launches(DeviceListing& all) {
  const at::TensorOptions options = all.fp32();
  all.add(
      "launch", "add_", 0.0,
      [=] {
        const at::Tensor x = at::zeros({1}, options), y = at::zeros({1}, options);
        return [=] {
          for (int i = 0; i < kLaunches; ++i) x.add_(y);
        };
      },
      kLaunches);
  if (!can_capture_graphs(all.device)) return;
  all.add(
      "graph", "add_", 0.0,
      [=] {
        const at::Tensor x = at::zeros({1}, options), y = at::zeros({1}, options);
        auto graph = std::make_shared<CapturedGraph>([=] {
          for (int i = 0; i < kLaunches; ++i) x.add_(y);
        });
        return [graph] { graph->replay(); };
      },
      kLaunches);
}

void add_dropout(DeviceListing& all) {
  const at::TensorOptions options = all.fp32();
  const double moved = static_cast<double>(kUpdateValues) * (4.0 + 4.0 + 1.0);
  all.add("dropout", "fp32", moved, [=] {
    const at::Tensor x = at::randn({kUpdateValues}, options);
    return [=] { at::native_dropout(x, 0.1, true); };
  });
}

// AdamW tensor by tensor, on lists of tensors and as one kernel: fp32 master weights and moments,
// 16-bit gradients and weights.
void add_optimizer_forms(DeviceListing& all) {
  const std::int64_t values = all.on_accelerator() ? kLargeUpdateValues : kUpdateValues;
  const at::TensorOptions options = all.fp32(), low = options.dtype(at::kBFloat16);
  const double moved = static_cast<double>(values) * (3.0 * 8.0 + 2.0 + 2.0);
  for (const auto& [name, form] : {std::pair{"loop", AdamWForm::Loop},
                                   {"foreach", AdamWForm::Foreach},
                                   {"fused", AdamWForm::Fused}}) {
    if (form == AdamWForm::Fused && !(has_operator("aten::_fused_adamw_") && all.on_accelerator()))
      continue;
    all.add("optimizer_form", name, moved, [=] {
      const AdamWSlice slice{.master = at::rand({values}, options),
                             .gradient = at::rand({values}, low),
                             .first_moment = at::rand({values}, options),
                             .second_moment = at::rand({values}, options),
                             .weight = at::rand({values}, low)};
      return [=] { adamw_steps({slice}, 10, {.form = form}); };
    });
  }
}

}  // namespace

std::vector<std::int64_t> copy_sizes(const CopyLimits& limits) {
  const auto blocks = [](double bytes) { return bytes / static_cast<double>(kSmallestCopy); };
  const auto most =
      std::max<std::int64_t>(1, std::llround(std::floor(blocks(0.5 * limits.buffers.value()))));
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = kSmallestCopy; size <= most * kSmallestCopy; size *= kCopyStep) {
    if (!sizes.empty() && static_cast<double>(size) > limits.usual.value()) break;
    sizes.push_back(size);
  }
  if (leave_cache(sizes, limits.cache)) return sizes;
  const std::int64_t wanted =
      std::llround(std::ceil(blocks(0.5 * sim::kCopyOfMemory * limits.cache.value())));
  const std::int64_t last = std::min(wanted, most) * kSmallestCopy;
  if (last > sizes.back()) sizes.push_back(last);
  return sizes;
}

bool leave_cache(const std::vector<std::int64_t>& sizes, sim::Bytes cache) {
  return moved_by_copy(sizes.back()) >= sim::kCopyOfMemory * cache.value();
}

std::vector<DeviceMeasurement> device_measurements(c10::Device device, const DeviceLimits& limits) {
  DeviceListing all{.device = device};
  add_launches(all);
  add_copies(all, limits.copies);
  add_dropout(all);
  add_optimizer_forms(all);
  add_library_gemms(all);
  add_library_attention(all, limits.longest);
  add_sustained(all, limits.sustained);
  return std::move(all.list);
}

}  // namespace llmsim::runtime
