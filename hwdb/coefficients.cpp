#include "hwdb/coefficients.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace llmsim::hwdb {
namespace {

using sim::AttentionCoefficients;
using sim::AttentionKernel;
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

const std::array<Field<GemmCoefficients>, 9> kGemmFields = {{
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
    {"misaligned_batch_factor",
     {0.01, 1.0},
     "",
     [](const auto& g) { return g.misaligned_batch_factor; },
     [](auto& g, double v) { g.misaligned_batch_factor = v; }},
    {"smallest_tile",
     {1.0, 64.0},
     "",
     [](const auto& g) { return double(g.smallest_tile); },
     [](auto& g, double v) { g.smallest_tile = static_cast<int>(v); }},
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

const std::array<Field<AttentionCoefficients>, 4> kAttentionFields = {{
    {"forward", {0.01, 1.2}, "", [](const auto& a) { return a.forward; }, [](auto& a, double v) { a.forward = v; }},
    {"backward", {0.001, 1.2}, "", [](const auto& a) { return a.backward; }, [](auto& a, double v) { a.backward = v; }},
    {"seq_half", {0.0, 65536.0}, "", [](const auto& a) { return a.seq_half; }, [](auto& a, double v) { a.seq_half = v; }},
    {"head_dim_64_factor",
     {0.01, 2.0},
     "",
     [](const auto& a) { return a.head_dim_64_factor; },
     [](auto& a, double v) { a.head_dim_64_factor = v; }},
}};

const std::array<Field<Cluster>, 23> kFields = {{
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
    {"host_call_factor",
     {0.1, 20.0},
     "",
     [](const auto& c) { return c.device.achieved.host_call_factor; },
     [](auto& c, double v) { c.device.achieved.host_call_factor = v; }},
    {"training_rate",
     {0.1, 2.0},
     "",
     [](const auto& c) { return c.device.achieved.training_rate; },
     [](auto& c, double v) { c.device.achieved.training_rate = v; }},
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
    {"collective_unit_bytes_per_s",
     {0.0, 1e13},
     "B/s",
     [](const auto& c) { return c.device.achieved.collective_unit_bandwidth.value(); },
     [](auto& c, double v) { c.device.achieved.collective_unit_bandwidth = sim::BytesPerSecond(v); }},
    {"collective_traffic",
     {0.0, 8.0},
     "",
     [](const auto& c) { return c.device.achieved.collective_traffic; },
     [](auto& c, double v) { c.device.achieved.collective_traffic = v; }},
    {"memory_interference", kRatio, "", [](const auto& c) { return c.device.achieved.memory_interference; },
     [](auto& c, double v) { c.device.achieved.memory_interference = v; }},
    {"collective_units",
     {1.0, 1024.0},
     "",
     [](const auto& c) { return c.device.achieved.collective_units; },
     [](auto& c, double v) { c.device.achieved.collective_units = v; }},
    {"device_spread", kRatio, "", [](const auto& c) { return c.device.achieved.device_spread; },
     [](auto& c, double v) { c.device.achieved.device_spread = v; }},
    {"context_bytes",
     {0.0, 1e11},
     "B",
     [](const auto& c) { return c.device.context_memory.value(); },
     [](auto& c, double v) { c.device.context_memory = sim::Bytes(v); }},
    {"communicator_bytes",
     {0.0, 1e11},
     "B",
     [](const auto& c) { return c.device.communicator_memory.value(); },
     [](auto& c, double v) { c.device.communicator_memory = sim::Bytes(v); }},
    {"matmul_workspace_bytes",
     {0.0, 1e11},
     "B",
     [](const auto& c) { return c.device.matmul_workspace.value(); },
     [](auto& c, double v) { c.device.matmul_workspace = sim::Bytes(v); }},
    {"host_bytes_per_s",
     {1e6, 1e14},
     "B/s",
     [](const auto& c) { return c.device.host_bandwidth.value(); },
     [](auto& c, double v) { c.device.host_bandwidth = sim::BytesPerSecond(v); }},
    {"host_memory_bytes_per_s",
     {1e6, 1e14},
     "B/s",
     [](const auto& c) { return c.device.host_memory_bandwidth.value(); },
     [](auto& c, double v) { c.device.host_memory_bandwidth = sim::BytesPerSecond(v); }},
    {"devices_per_host_link",
     {1.0, 64.0},
     "",
     [](const auto& c) { return double(c.devices_per_host_link); },
     [](auto& c, double v) { c.devices_per_host_link = static_cast<int>(v); }},
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

// Of processes of one host; 0 and without effect elsewhere.
constexpr CoefficientRange kNeighbours{0.0, 100.0};

const std::array<Field<Cluster>, 4> kHostFields = {{
    {"sharing.collectives", kRatio, "", [](const auto& c) { return c.device.achieved.sharing.collectives; },
     [](auto& c, double v) { c.device.achieved.sharing.collectives = v; }},
    {"sharing.gemms", kNeighbours, "", [](const auto& c) { return c.device.achieved.sharing.gemms; },
     [](auto& c, double v) { c.device.achieved.sharing.gemms = v; }},
    {"sharing.streaming", kNeighbours, "", [](const auto& c) { return c.device.achieved.sharing.streaming; },
     [](auto& c, double v) { c.device.achieved.sharing.streaming = v; }},
    {"fabric.sum_bytes_per_s",
     {1e6, 1e14},
     "B/s",
     [](const auto& c) { return c.fabric.sum_bandwidth.value(); },
     [](auto& c, double v) { c.fabric.sum_bandwidth = sim::BytesPerSecond(v); }},
}};

// Streaming rates have a field for each kernel, pass and place: "rms_norm.forward_cached".
struct StreamingField {
  sim::StreamingKernel kernel = sim::StreamingKernel::Copy;
  bool backward = false;
  bool cached = false;

  std::string name() const {
    return std::string(name_of(kernel)) + (backward ? ".backward" : ".forward") + (cached ? "_cached" : "");
  }
  double& in(sim::StreamingRates& rates) const {
    sim::StreamingRate& rate = (backward ? rates.backward : rates.forward)[static_cast<std::size_t>(kernel)];
    return cached ? rate.cached : rate.streamed;
  }
};

constexpr CoefficientRange kStreamingRange{1e-3, 1e3};
constexpr std::string_view kStreaming = "streaming.";

const std::vector<StreamingField>& streaming_fields() {
  static const std::vector<StreamingField> fields = [] {
    std::vector<StreamingField> all;
    for (int kernel = 0; kernel < sim::kNumStreamingKernels; ++kernel) {
      for (const bool backward : {false, true}) {
        for (const bool cached : {false, true}) all.push_back({static_cast<sim::StreamingKernel>(kernel), backward, cached});
      }
    }
    return all;
  }();
  return fields;
}

std::string streaming_key(sim::DType dtype, const StreamingField& field) {
  return std::string(kStreaming) + name_of(dtype) + "." + field.name();
}

// The format and the field of "streaming.fp32.norm.forward".
struct StreamingKey {
  sim::DType dtype = sim::DType::Fp32;
  StreamingField field;
};
std::optional<StreamingKey> streaming_key_named(std::string_view key) {
  if (!key.starts_with(kStreaming)) return std::nullopt;
  for (const sim::DType dtype : kDTypes) {
    for (const StreamingField& field : streaming_fields()) {
      if (streaming_key(dtype, field) == key) return StreamingKey{dtype, field};
    }
  }
  return std::nullopt;
}

// Those that differ from the rate of memory.
void add_streaming_values(sim::Achieved achieved, sim::DType dtype, std::vector<CoefficientValue>& values) {
  for (const StreamingField& field : streaming_fields()) {
    const double rate = field.in(achieved.streaming[static_cast<std::size_t>(dtype)]);
    if (rate != 1.0) values.push_back({streaming_key(dtype, field), rate, ""});
  }
}

const std::array<AttentionKernel, sim::kNumAttentionKernels> kKernels = [] {
  std::array<AttentionKernel, sim::kNumAttentionKernels> kernels{};
  for (std::size_t i = 0; i < kernels.size(); ++i) kernels[i] = static_cast<AttentionKernel>(i);
  return kernels;
}();

GemmCoefficients& coefficients_of(sim::Achieved& achieved, sim::DType dtype) {
  return achieved.gemm[static_cast<std::size_t>(dtype)];
}
AttentionCoefficients& coefficients_of(sim::Achieved& achieved, AttentionKernel kernel) {
  return achieved.attention[static_cast<std::size_t>(kernel)];
}

template <typename Fields>
auto named_field(const Fields& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

const Field<Cluster>* cluster_field(std::string_view name) {
  const auto* field = named_field(kFields, name);
  return field ? field : named_field(kHostFields, name);
}

// A family of coefficients that a device has once for each member: gemm.bf16.k_half, attention.flash-2.forward.  Without the
// member, the key means all of them.
template <typename Member, std::size_t kMembers, typename Owner, std::size_t kNumFields>
struct Family {
  std::string_view prefix;
  const std::array<Member, kMembers>& members;
  const std::array<Field<Owner>, kNumFields>& fields;

  struct Key {
    std::optional<Member> member;
    const Field<Owner>* field = nullptr;
  };

  std::string key(Member member, const Field<Owner>& field) const {
    return std::string(prefix) + name_of(member) + "." + field.name;
  }

  Key parsed(std::string_view text) const {
    if (!text.starts_with(prefix)) return {};
    text.remove_prefix(prefix.size());
    for (const Member member : members) {
      const std::string name = std::string(name_of(member)) + ".";
      if (text.starts_with(name)) return {member, named_field(fields, text.substr(name.size()))};
    }
    return {std::nullopt, named_field(fields, text)};
  }

  std::vector<std::string> keys(const Key& parsed) const {
    std::vector<std::string> all;
    for (const Member member : members) {
      if (parsed.field && (!parsed.member || *parsed.member == member)) all.push_back(key(member, *parsed.field));
    }
    return all;
  }

  void add_keys(std::vector<std::string>& all) const {
    for (const Member member : members) {
      for (const auto& field : fields) all.push_back(key(member, field));
    }
  }

  void set(sim::Achieved& achieved, const Key& parsed, double value) const {
    for (const Member member : members) {
      if (!parsed.member || *parsed.member == member) parsed.field->set(coefficients_of(achieved, member), value);
    }
  }

  void add_values(sim::Achieved achieved, Member member, std::vector<CoefficientValue>& values) const {
    for (const auto& field : fields)
      values.push_back({key(member, field), field.get(coefficients_of(achieved, member)), field.unit});
  }
};

const Family<sim::DType, sim::kNumDTypes, GemmCoefficients, 9> kGemm{"gemm.", kDTypes, kGemmFields};
const Family<AttentionKernel, sim::kNumAttentionKernels, AttentionCoefficients, 4> kAttention{"attention.", kKernels,
                                                                                              kAttentionFields};

}  // namespace

const std::vector<std::string>& coefficient_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const auto& entry : kFields) all.emplace_back(entry.name);
    for (const auto& entry : kHostFields) all.emplace_back(entry.name);
    kGemm.add_keys(all);
    kAttention.add_keys(all);
    for (const sim::DType dtype : kDTypes) {
      for (const StreamingField& field : streaming_fields()) all.push_back(streaming_key(dtype, field));
    }
    return all;
  }();
  return keys;
}

std::optional<CoefficientRange> coefficient_range(std::string_view key) {
  if (const auto* entry = cluster_field(key)) return entry->range;
  if (const auto* entry = kGemm.parsed(key).field) return entry->range;
  if (const auto* entry = kAttention.parsed(key).field) return entry->range;
  if (streaming_key_named(key)) return kStreamingRange;
  return std::nullopt;
}

std::vector<std::string> keys_set_by(std::string_view key) {
  if (cluster_field(key) || streaming_key_named(key)) return {std::string(key)};
  const std::vector<std::string> keys = kGemm.keys(kGemm.parsed(key));
  return keys.empty() ? kAttention.keys(kAttention.parsed(key)) : keys;
}

void set_coefficient(sim::Cluster& cluster, std::string_view key, double value) {
  if (const auto* entry = cluster_field(key)) return entry->set(cluster, value);
  if (const auto gemm = kGemm.parsed(key); gemm.field) return kGemm.set(cluster.device.achieved, gemm, value);
  if (const auto streaming = streaming_key_named(key)) {
    streaming->field.in(cluster.device.achieved.streaming[static_cast<std::size_t>(streaming->dtype)]) = value;
    return;
  }
  const auto attention = kAttention.parsed(key);
  assert(attention.field);
  kAttention.set(cluster.device.achieved, attention, value);
}

std::vector<CoefficientValue> coefficient_values(const sim::Cluster& cluster) {
  std::vector<CoefficientValue> values;
  for (const sim::DType dtype : kDTypes) {
    if (cluster.device.matrix_peak[static_cast<std::size_t>(dtype)].value() <= 0.0) continue;
    kGemm.add_values(cluster.device.achieved, dtype, values);
    add_streaming_values(cluster.device.achieved, dtype, values);
  }
  for (const AttentionKernel kernel : kKernels) kAttention.add_values(cluster.device.achieved, kernel, values);
  for (const auto& entry : kFields) values.push_back({entry.name, entry.get(cluster), entry.unit});
  for (const auto& entry : kHostFields) {
    if (entry.get(cluster) != 0.0) values.push_back({entry.name, entry.get(cluster), entry.unit});
  }
  return values;
}

}  // namespace llmsim::hwdb
