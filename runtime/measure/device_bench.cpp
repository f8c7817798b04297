#include "runtime/measure/device_bench.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "runtime/library/cuda_graph.h"
#include "runtime/library/device.h"
#include "runtime/library/operator_call.h"
#include "runtime/measure/kernel_bench.h"
#include "sim/cost/kernels.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

constexpr std::int64_t kSmallestCopy = std::int64_t{1} << 14;
constexpr int kCopyStep = 4;
constexpr std::int64_t kUpdateValues = std::int64_t{1} << 22;
constexpr int kLaunches = 100;  // in one timing of launches

using Prepare = std::function<std::function<void()>()>;  // makes operands, gives the call

// A list of measurements that is being made.
struct Listing {
  c10::Device device;
  std::vector<DeviceMeasurement> list{};

  void add(const std::string& kind, const std::string& name, double moved_bytes, Prepare prepare,
           int times = 1) {
    const std::string key = kind + " " + name;
    list.push_back(
        {key, [=, on = device](const RepeatOptions& options) {
           json record{
               {"type", "kernel"},           {"key", key},      {"kind", kind}, {"label", name},
               {"moved_bytes", moved_bytes}, {"kernels", times}};
           with_outcome(record, [&] {
             const std::function<void()> call = prepare();
             add_timing(record, repeated([&] { return timed(on, call); }, options));
           });
           return record;
         }});
  }

  at::TensorOptions fp32() const { return at::TensorOptions(at::kFloat).device(device); }
};

double moved_by_copy(std::int64_t size) { return 2.0 * static_cast<double>(size); }

void add_copies(Listing& all, const std::vector<std::int64_t>& sizes) {
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
    for (const bool up : {true, false}) {
      if (!crosses_link && !up) continue;
      all.add("host_copy", std::string(up ? "to_device " : "to_host ") + std::to_string(size),
              static_cast<double>(size), [=] {
                const at::Tensor host =
                    at::empty({size / 4}, options.device(at::kCPU).pinned_memory(crosses_link));
                const at::Tensor near = at::empty({size / 4}, options);
                return [=] { up ? near.copy_(host, true) : host.copy_(near, true); };
              });
    }
  }
}

void add_launches(Listing& all) {
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

void add_dropout(Listing& all) {
  const at::TensorOptions options = all.fp32();
  const double moved = static_cast<double>(kUpdateValues) * (4.0 + 4.0 + 1.0);
  all.add("dropout", "fp32", moved, [=] {
    const at::Tensor x = at::randn({kUpdateValues}, options);
    return [=] { at::native_dropout(x, 0.1, true); };
  });
}

void add_library_attention(Listing& all) {
  const std::string name = "aten::scaled_dot_product_attention";
  if (!has_operator(name)) return;
  for (const std::int64_t length : {512, 1024, 2048, 4096}) {
    const at::TensorOptions options = all.fp32().dtype(at::kBFloat16);
    all.add("library_attention", std::to_string(length), 0.0, [=] {
      const at::Tensor q = at::randn({4, 16, length, 128}, options);
      return [=] { call_operator(name, {q, q, q, c10::IValue(), 0.0, true}); };
    });
  }
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
constexpr auto kLowPrecision = at::kFloat8_e4m3fn;

void add_fp8(Listing& all) {
  if (!has_operator("aten::_scaled_mm") || !all.device.is_cuda()) return;
  const at::TensorOptions options = all.fp32();
  for (const std::int64_t n : {2048, 4096, 8192}) {
    const auto values = static_cast<double>(n * n);
    all.add("fp8_quantise", std::to_string(n), 3.0 * values, [=] {
      const at::Tensor x = at::randn({n, n}, options.dtype(at::kBFloat16));
      return [=] { x.to(kLowPrecision); };
    });
    all.add("fp8_gemm", std::to_string(n), 4.0 * values, [=] {
      const at::Tensor a = at::randn({n, n}, options).to(kLowPrecision),
                       b = at::randn({n, n}, options).to(kLowPrecision).t();
      const at::Tensor one = at::ones({}, options);
      return [=] {
        call_operator("aten::_scaled_mm",
                      {a, b, one, one, c10::IValue(), c10::IValue(), at::kBFloat16});
      };
    });
  }
}
#else
void add_fp8(Listing&) {}
#endif

// AdamW as one kernel, and as one call for each arithmetic operation on all tensors.
void add_optimizer_forms(Listing& all) {
  const at::TensorOptions options = all.fp32();
  const auto values = [=] { return std::vector<at::Tensor>{at::rand({kUpdateValues}, options)}; };
  const double moved = static_cast<double>(kUpdateValues) * 4.0;
  all.add("optimizer_form", "foreach", 20.0 * moved, [=] {
    const std::vector<at::Tensor> w = values(), g = values(), m = values(), v = values();
    return [=] {
      at::_foreach_mul_(w, 1.0);
      at::_foreach_mul_(m, 0.9);
      at::_foreach_add_(m, g, 0.1);
      at::_foreach_mul_(v, 0.95);
      at::_foreach_addcmul_(v, g, g, 0.05);
      std::vector<at::Tensor> root = at::_foreach_sqrt(v);
      at::_foreach_add_(root, 1e-8);
      at::_foreach_addcdiv_(w, m, root, -1e-3);
    };
  });
  if (!has_operator("aten::_fused_adamw_") || !all.device.is_cuda()) return;
  all.add("optimizer_form", "fused", 7.0 * moved, [=] {
    const std::vector<at::Tensor> w = values(), g = values(), m = values(), v = values();
    const std::vector<at::Tensor> none, steps{at::ones({}, options)};
    return [=] {
      call_operator("aten::_fused_adamw_",
                    {w, g, m, v, none, steps, 1e-3, 0.9, 0.95, 0.1, 1e-8, false, false});
    };
  });
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

std::vector<DeviceMeasurement> device_measurements(c10::Device device,
                                                   const std::vector<std::int64_t>& sizes) {
  Listing all{.device = device};
  add_launches(all);
  add_copies(all, sizes);
  add_dropout(all);
  add_library_attention(all);
  add_fp8(all);
  add_optimizer_forms(all);
  return std::move(all.list);
}

}  // namespace llmsim::runtime
