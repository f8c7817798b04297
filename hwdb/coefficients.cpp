#include "hwdb/coefficients.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace llmsim::hwdb {
namespace {

using sim::Cluster;
using sim::GemmCoefficients;

constexpr std::array<sim::DType, sim::kNumDTypes> kDTypes = {sim::DType::Fp32, sim::DType::Tf32, sim::DType::Fp16,
                                                             sim::DType::Bf16, sim::DType::Fp8,  sim::DType::Fp4};

// One kind of coefficient: how to read and to write it.
template <typename Owner>
struct Field {
  const char* name;
  CoefficientRange range;
  const char* unit;
  double (*get)(const Owner&);
  void (*set)(Owner&, double);
};

constexpr CoefficientRange kRatio{0.0, 1.0};
constexpr CoefficientRange kSmallTime{0.0, 1.0};

const std::array<Field<GemmCoefficients>, 7> kGemmFields = {{
    {"max_efficiency",
     {0.01, 1.2},
     "",
     [](const auto& g) { return g.max_efficiency; },
     [](auto& g, double v) { g.max_efficiency = v; }},
    {"k_half", {0.0, 65536.0}, "", [](const auto& g) { return g.k_half; }, [](auto& g, double v) { g.k_half = v; }},
    {"wave_quantisation", kRatio, "", [](const auto& g) { return g.wave_quantisation; },
     [](auto& g, double v) { g.wave_quantisation = v; }},
    {"misaligned_factor",
     {0.01, 1.0},
     "",
     [](const auto& g) { return g.misaligned_factor; },
     [](auto& g, double v) { g.misaligned_factor = v; }},
    {"alignment",
     {1.0, 1024.0},
     "",
     [](const auto& g) { return double(g.alignment); },
     [](auto& g, double v) { g.alignment = static_cast<int>(v); }},
    {"weight_gradient_factor",
     {0.01, 2.0},
     "",
     [](const auto& g) { return g.weight_gradient_factor; },
     [](auto& g, double v) { g.weight_gradient_factor = v; }},
    {"kernel_time_s", kSmallTime, "s", [](const auto& g) { return g.kernel_time.value(); },
     [](auto& g, double v) { g.kernel_time = sim::Seconds(v); }},
}};

const std::array<Field<Cluster>, 18> kFields = {{
    {"attention.flash_forward",
     {0.01, 1.2},
     "",
     [](const auto& c) { return c.device.achieved.attention.flash_forward; },
     [](auto& c, double v) { c.device.achieved.attention.flash_forward = v; }},
    {"attention.flash_backward",
     {0.01, 1.2},
     "",
     [](const auto& c) { return c.device.achieved.attention.flash_backward; },
     [](auto& c, double v) { c.device.achieved.attention.flash_backward = v; }},
    {"attention.seq_half",
     {0.0, 65536.0},
     "",
     [](const auto& c) { return c.device.achieved.attention.seq_half; },
     [](auto& c, double v) { c.device.achieved.attention.seq_half = v; }},
    {"attention.head_dim_64_factor",
     {0.01, 2.0},
     "",
     [](const auto& c) { return c.device.achieved.attention.head_dim_64_factor; },
     [](auto& c, double v) { c.device.achieved.attention.head_dim_64_factor = v; }},
    {"kernel_time_s", kSmallTime, "s", [](const auto& c) { return c.device.achieved.kernel_time.value(); },
     [](auto& c, double v) { c.device.achieved.kernel_time = sim::Seconds(v); }},
    {"memory_fraction",
     {0.01, 1.1},
     "",
     [](const auto& c) { return c.device.achieved.memory_fraction; },
     [](auto& c, double v) { c.device.achieved.memory_fraction = v; }},
    {"sustained_clock",
     {0.1, 1.5},
     "",
     [](const auto& c) { return c.device.achieved.sustained_clock; },
     [](auto& c, double v) { c.device.achieved.sustained_clock = v; }},
    {"collective_fraction",
     {0.01, 1.1},
     "",
     [](const auto& c) { return c.device.achieved.collective_fraction; },
     [](auto& c, double v) { c.device.achieved.collective_fraction = v; }},
    {"scale_out_fraction",
     {0.01, 1.1},
     "",
     [](const auto& c) { return c.device.achieved.scale_out_fraction; },
     [](auto& c, double v) { c.device.achieved.scale_out_fraction = v; }},
    {"contention", kRatio, "", [](const auto& c) { return c.device.achieved.contention; },
     [](auto& c, double v) { c.device.achieved.contention = v; }},
    {"device_spread", kRatio, "", [](const auto& c) { return c.device.achieved.device_spread; },
     [](auto& c, double v) { c.device.achieved.device_spread = v; }},
    {"context_bytes",
     {0.0, 1e11},
     "B",
     [](const auto& c) { return c.device.context_memory.value(); },
     [](auto& c, double v) { c.device.context_memory = sim::Bytes(v); }},
    {"host_bytes_per_s",
     {1e6, 1e14},
     "B/s",
     [](const auto& c) { return c.device.host_bandwidth.value(); },
     [](auto& c, double v) { c.device.host_bandwidth = sim::BytesPerSecond(v); }},
    {"fabric.latency_s", kSmallTime, "s", [](const auto& c) { return c.fabric.latency.value(); },
     [](auto& c, double v) { c.fabric.latency = sim::Seconds(v); }},
    {"network.ring_decay", kRatio, "", [](const auto& c) { return c.network.ring_decay; },
     [](auto& c, double v) { c.network.ring_decay = v; }},
    {"network.slow_fraction",
     {0.01, 1.0},
     "",
     [](const auto& c) { return c.network.slow_fraction; },
     [](auto& c, double v) { c.network.slow_fraction = v; }},
    {"network.socket_bytes_per_s",
     {1e6, 1e14},
     "B/s",
     [](const auto& c) { return c.network.socket_bandwidth.value(); },
     [](auto& c, double v) { c.network.socket_bandwidth = sim::BytesPerSecond(v); }},
    {"network.latency_s", kSmallTime, "s", [](const auto& c) { return c.network.latency.value(); },
     [](auto& c, double v) { c.network.latency = sim::Seconds(v); }},
}};

std::string gemm_key(sim::DType dtype, const char* field) { return std::string("gemm.") + sim::name_of(dtype) + "." + field; }

const Field<GemmCoefficients>* gemm_field(std::string_view name) {
  const auto found = std::find_if(kGemmFields.begin(), kGemmFields.end(), [&](const auto& field) { return field.name == name; });
  return found == kGemmFields.end() ? nullptr : &*found;
}

const Field<Cluster>* field(std::string_view name) {
  const auto found = std::find_if(kFields.begin(), kFields.end(), [&](const auto& entry) { return entry.name == name; });
  return found == kFields.end() ? nullptr : &*found;
}

// The format and the field of "gemm.bf16.k_half"; of "gemm.k_half" the field only.
struct GemmKey {
  std::optional<sim::DType> dtype;
  const Field<GemmCoefficients>* field = nullptr;
};

GemmKey parsed_gemm_key(std::string_view key) {
  constexpr std::string_view kPrefix = "gemm.";
  if (!key.starts_with(kPrefix)) return {};
  key.remove_prefix(kPrefix.size());
  for (const sim::DType dtype : kDTypes) {
    const std::string format = std::string(sim::name_of(dtype)) + ".";
    if (key.starts_with(format)) return {dtype, gemm_field(key.substr(format.size()))};
  }
  return {std::nullopt, gemm_field(key)};
}

}  // namespace

const std::vector<std::string>& coefficient_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const auto& entry : kFields) all.emplace_back(entry.name);
    for (const sim::DType dtype : kDTypes) {
      for (const auto& entry : kGemmFields) all.push_back(gemm_key(dtype, entry.name));
    }
    return all;
  }();
  return keys;
}

std::optional<CoefficientRange> coefficient_range(std::string_view key) {
  if (const auto* entry = field(key)) return entry->range;
  if (const auto* entry = parsed_gemm_key(key).field) return entry->range;
  return std::nullopt;
}

std::vector<std::string> keys_set_by(std::string_view key) {
  if (field(key)) return {std::string(key)};
  const GemmKey gemm = parsed_gemm_key(key);
  if (!gemm.field) return {};
  if (gemm.dtype) return {std::string(key)};
  std::vector<std::string> keys;
  for (const sim::DType dtype : kDTypes) keys.push_back(gemm_key(dtype, gemm.field->name));
  return keys;
}

void set_coefficient(sim::Cluster& cluster, std::string_view key, double value) {
  if (const auto* entry = field(key)) return entry->set(cluster, value);
  const GemmKey gemm = parsed_gemm_key(key);
  assert(gemm.field);
  for (const sim::DType dtype : kDTypes) {
    if (!gemm.dtype || *gemm.dtype == dtype)
      gemm.field->set(cluster.device.achieved.gemm[static_cast<std::size_t>(dtype)], value);
  }
}

std::vector<CoefficientValue> coefficient_values(const sim::Cluster& cluster) {
  std::vector<CoefficientValue> values;
  for (const sim::DType dtype : kDTypes) {
    const auto index = static_cast<std::size_t>(dtype);
    if (cluster.device.matrix_peak[index].value() <= 0.0) continue;
    for (const auto& entry : kGemmFields) {
      values.push_back({gemm_key(dtype, entry.name), entry.get(cluster.device.achieved.gemm[index]), entry.unit});
    }
  }
  for (const auto& entry : kFields) values.push_back({entry.name, entry.get(cluster), entry.unit});
  return values;
}

}  // namespace llmsim::hwdb
