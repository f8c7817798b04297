#include "hwdb/hardware/coefficients.h"

#include <algorithm>
#include <cassert>
#include <type_traits>

namespace llmsim::hwdb {
namespace {

using sim::AttentionCoefficients;
using sim::AttentionKernel;
using sim::Cluster;
using sim::GemmCoefficients;

template <typename Member>
std::vector<Member> all_of(std::size_t count) {
  std::vector<Member> members;
  for (std::size_t i = 0; i < count; ++i) members.push_back(static_cast<Member>(i));
  return members;
}

const std::vector<sim::DType> kDTypes = all_of<sim::DType>(sim::kNumDTypes);
const std::vector<AttentionKernel> kKernels = all_of<AttentionKernel>(sim::kNumAttentionKernels);

// One kind of coefficient: how to read and to write it.
template <typename Owner>
struct Field {
  const char* name;
  CoefficientRange range;
  const char* unit;
  double (*get)(const Owner&);
  void (*set)(Owner&, double);
  bool of_hosts = false;  // of processes of one host; 0 and without effect elsewhere
};

template <typename Member>
double number_of(Member member) {
  if constexpr (requires { member.value(); })
    return member.value();
  else
    return static_cast<double>(member);
}

template <typename Member>
constexpr const char* unit_of() {
  return std::is_same_v<Member, sim::Seconds>          ? "s"
         : std::is_same_v<Member, sim::Bytes>          ? "B"
         : std::is_same_v<Member, sim::BytesPerSecond> ? "B/s"
                                                       : "";
}

// The member that `Access` reaches.
template <typename Owner, typename Access>
Field<Owner> field(const char* name, double least, double most, Access) {
  using Member = std::remove_cvref_t<std::invoke_result_t<Access, Owner&>>;
  return {.name = name,
          .range = {least, most},
          .unit = unit_of<Member>(),
          .get = [](const Owner& owner) { return number_of(Access{}(owner)); },
          .set = [](Owner& owner, double value) { Access{}(owner) = static_cast<Member>(value); }};
}

Field<Cluster> of_hosts(Field<Cluster> field) {
  field.of_hosts = true;
  return field;
}

#define COEFFICIENT(Owner, name, least, most, member) \
  field<Owner>(                                       \
      name, least, most, [](auto& owner) -> auto& { return owner.member; })

const std::vector<Field<GemmCoefficients>> kGemmFields = {
    COEFFICIENT(GemmCoefficients, "max_efficiency", 0.01, 1.2, max_efficiency),
    COEFFICIENT(GemmCoefficients, "k_half", 0.0, 65536.0, k_half),
    COEFFICIENT(GemmCoefficients, "wave_quantisation", 0.0, 1.0, wave_quantisation),
    COEFFICIENT(GemmCoefficients, "misaligned_factor", 0.01, 1.0, misaligned_factor),
    COEFFICIENT(GemmCoefficients, "even_rows_gain", 1.0, 100.0, even_rows_gain),
    COEFFICIENT(GemmCoefficients, "misaligned_batch_factor", 0.01, 1.0, misaligned_batch_factor),
    COEFFICIENT(GemmCoefficients, "smallest_tile", 1.0, 64.0, smallest_tile),
    COEFFICIENT(GemmCoefficients, "alignment", 1.0, 1024.0, alignment),
    COEFFICIENT(GemmCoefficients, "weight_gradient_factor", 0.01, 2.0, weight_gradient_factor),
    COEFFICIENT(GemmCoefficients, "transposed_factor", 0.01, 2.0, transposed_factor),
    COEFFICIENT(GemmCoefficients, "clock_factor", 0.1, 2.0, clock_factor),
    COEFFICIENT(GemmCoefficients, "kernel_time_s", 0.0, 1.0, kernel_time),
};

const std::vector<Field<AttentionCoefficients>> kAttentionFields = {
    COEFFICIENT(AttentionCoefficients, "forward", 0.001, 1.2, forward),
    COEFFICIENT(AttentionCoefficients, "backward", 0.001, 1.2, backward),
    COEFFICIENT(AttentionCoefficients, "seq_half", 0.0, 65536.0, seq_half),
    COEFFICIENT(AttentionCoefficients, "head_dim_64_factor", 0.01, 2.0, head_dim_64_factor),
};

const std::vector<Field<Cluster>> kFields = {
    COEFFICIENT(Cluster, "kernel_time_s", 0.0, 1.0, device.achieved.kernel_time),
    COEFFICIENT(Cluster, "memory_fraction", 0.01, 1.1, device.achieved.memory_fraction),
    COEFFICIENT(Cluster, "sustained_clock", 0.1, 1.5, device.achieved.sustained_clock),
    COEFFICIENT(Cluster, "host_call_factor", 0.1, 20.0, device.achieved.host_call_factor),
    COEFFICIENT(Cluster, "training_rate", 0.1, 2.0, device.achieved.training_rate),
    COEFFICIENT(Cluster, "training_rate_error", 0.0, 1.0, device.achieved.training_rate_error),
    COEFFICIENT(Cluster, "collective_fraction", 0.01, 1.1, device.achieved.collective_fraction),
    COEFFICIENT(Cluster, "scale_out_fraction", 0.01, 1.1, device.achieved.scale_out_fraction),
    COEFFICIENT(Cluster, "collective_unit_bytes_per_s", 0.0, 1e13,
                device.achieved.collective_unit_bandwidth),
    COEFFICIENT(Cluster, "collective_traffic", 0.0, 8.0, device.achieved.collective_traffic),
    COEFFICIENT(Cluster, "memory_interference", 0.0, 1.0, device.achieved.memory_interference),
    COEFFICIENT(Cluster, "collective_units", 1.0, 1024.0, device.achieved.collective_units),
    COEFFICIENT(Cluster, "device_spread", 0.0, 1.0, device.achieved.device_spread),
    COEFFICIENT(Cluster, "context_bytes", 0.0, 1e11, device.context_memory),
    COEFFICIENT(Cluster, "communicator_bytes", 0.0, 1e11, device.communicator_memory),
    COEFFICIENT(Cluster, "matmul_workspace_bytes", 0.0, 1e11, device.matmul_workspace),
    COEFFICIENT(Cluster, "host_bytes_per_s", 1e6, 1e14, device.host_bandwidth),
    COEFFICIENT(Cluster, "host_memory_bytes_per_s", 1e6, 1e14, device.host_memory_bandwidth),
    COEFFICIENT(Cluster, "devices_per_host_link", 1.0, 64.0, devices_per_host_link),
    COEFFICIENT(Cluster, "fabric.latency_s", 0.0, 1.0, fabric.latency),
    COEFFICIENT(Cluster, "network.ring_decay", 0.0, 1.0, network.ring_decay),
    COEFFICIENT(Cluster, "network.ring_domains", 2.0, 1e6, network.ring_domains),
    COEFFICIENT(Cluster, "network.ring_step_s", 0.0, 1.0, network.ring_step),
    COEFFICIENT(Cluster, "network.slow_fraction", 0.01, 1.0, network.slow_fraction),
    COEFFICIENT(Cluster, "network.socket_bytes_per_s", 1e6, 1e14, network.socket_bandwidth),
    COEFFICIENT(Cluster, "network.latency_s", 0.0, 1.0, network.latency),
    COEFFICIENT(Cluster, "network.all_to_all_latency_s", 0.0, 1.0, network.all_to_all_latency),
    COEFFICIENT(Cluster, "network.peer_latency_s", 0.0, 1.0, network.peer_latency),
    of_hosts(
        COEFFICIENT(Cluster, "sharing.collectives", 0.0, 1.0, device.achieved.sharing.collectives)),
    of_hosts(COEFFICIENT(Cluster, "sharing.gemms", 0.0, 100.0, device.achieved.sharing.gemms)),
    of_hosts(COEFFICIENT(Cluster, "sharing.memory_bound", 0.0, 100.0,
                         device.achieved.sharing.memory_bound)),
    of_hosts(COEFFICIENT(Cluster, "fabric.sum_bytes_per_s", 1e6, 1e14, fabric.sum_bandwidth)),
};

#undef COEFFICIENT

// Streaming rates have a field for each kernel, pass and place: "rms_norm.forward_cached".
struct MemoryBoundField {
  sim::MemoryBoundKernel kernel = sim::MemoryBoundKernel::Copy;
  bool backward = false;
  bool cached = false;

  std::string name() const {
    return std::string(name_of(kernel)) + (backward ? ".backward" : ".forward") +
           (cached ? "_cached" : "");
  }
  double& in(sim::MemoryBoundRates& rates) const {
    sim::MemoryBoundRate& rate =
        (backward ? rates.backward : rates.forward)[static_cast<std::size_t>(kernel)];
    return cached ? rate.cached : rate.streamed;
  }
};

constexpr CoefficientRange kMemoryBoundRange{1e-3, 1e3};
constexpr std::string_view kMemoryBound = "memory_bound.";

const std::vector<MemoryBoundField>& memory_bound_fields() {
  static const std::vector<MemoryBoundField> fields = [] {
    std::vector<MemoryBoundField> all;
    for (int kernel = 0; kernel < sim::kNumMemoryBoundKernels; ++kernel) {
      for (const bool backward : {false, true}) {
        for (const bool cached : {false, true})
          all.push_back({static_cast<sim::MemoryBoundKernel>(kernel), backward, cached});
      }
    }
    return all;
  }();
  return fields;
}

std::string memory_bound_key(sim::DType dtype, const MemoryBoundField& field) {
  return std::string(kMemoryBound) + name_of(dtype) + "." + field.name();
}

// The format and the field of "memory_bound.fp32.norm.forward".
struct MemoryBoundKey {
  sim::DType dtype = sim::DType::Fp32;
  MemoryBoundField field;
};
std::optional<MemoryBoundKey> memory_bound_key_named(std::string_view key) {
  if (!key.starts_with(kMemoryBound)) return std::nullopt;
  for (const sim::DType dtype : kDTypes) {
    for (const MemoryBoundField& field : memory_bound_fields()) {
      if (memory_bound_key(dtype, field) == key) return MemoryBoundKey{dtype, field};
    }
  }
  return std::nullopt;
}

// Those that differ from the rate of memory.
void add_memory_bound_values(sim::Achieved achieved, sim::DType dtype,
                             std::vector<CoefficientValue>& values) {
  for (const MemoryBoundField& field : memory_bound_fields()) {
    const double rate = field.in(achieved.memory_bound[static_cast<std::size_t>(dtype)]);
    if (rate != 1.0) values.push_back({memory_bound_key(dtype, field), rate, ""});
  }
}

GemmCoefficients& coefficients_of(sim::Achieved& achieved, sim::DType dtype) {
  return achieved.gemm[static_cast<std::size_t>(dtype)];
}
AttentionCoefficients& coefficients_of(sim::Achieved& achieved, AttentionKernel kernel) {
  return achieved.attention[static_cast<std::size_t>(kernel)];
}

template <typename Owner>
const Field<Owner>* named_field(const std::vector<Field<Owner>>& fields, std::string_view name) {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& one) { return one.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

// A family of coefficients that a device has once for each member: gemm.bf16.k_half,
// attention.flash-2.forward.  Without the member, the key means all of them.
template <typename Member, typename Owner>
struct Family {
  std::string_view prefix;
  const std::vector<Member>& members;
  const std::vector<Field<Owner>>& fields;

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
      if (parsed.field && (!parsed.member || *parsed.member == member))
        all.push_back(key(member, *parsed.field));
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
      if (!parsed.member || *parsed.member == member)
        parsed.field->set(coefficients_of(achieved, member), value);
    }
  }

  void add_values(sim::Achieved achieved, Member member,
                  std::vector<CoefficientValue>& values) const {
    for (const auto& field : fields)
      values.push_back(
          {key(member, field), field.get(coefficients_of(achieved, member)), field.unit});
  }
};

const Family<sim::DType, GemmCoefficients> kGemm{"gemm.", kDTypes, kGemmFields};
const Family<AttentionKernel, AttentionCoefficients> kAttention{"attention.", kKernels,
                                                                kAttentionFields};

}  // namespace

const std::vector<std::string>& coefficient_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const auto& entry : kFields) all.emplace_back(entry.name);
    kGemm.add_keys(all);
    kAttention.add_keys(all);
    for (const sim::DType dtype : kDTypes) {
      for (const MemoryBoundField& field : memory_bound_fields())
        all.push_back(memory_bound_key(dtype, field));
    }
    return all;
  }();
  return keys;
}

std::optional<CoefficientRange> coefficient_range(std::string_view key) {
  if (const auto* entry = named_field(kFields, key)) return entry->range;
  if (const auto* entry = kGemm.parsed(key).field) return entry->range;
  if (const auto* entry = kAttention.parsed(key).field) return entry->range;
  if (memory_bound_key_named(key)) return kMemoryBoundRange;
  return std::nullopt;
}

std::vector<std::string> keys_set_by(std::string_view key) {
  if (named_field(kFields, key) || memory_bound_key_named(key)) return {std::string(key)};
  const std::vector<std::string> keys = kGemm.keys(kGemm.parsed(key));
  return keys.empty() ? kAttention.keys(kAttention.parsed(key)) : keys;
}

void set_coefficient(sim::Cluster& cluster, std::string_view key, double value) {
  if (const auto* entry = named_field(kFields, key)) return entry->set(cluster, value);
  if (const auto gemm = kGemm.parsed(key); gemm.field)
    return kGemm.set(cluster.device.achieved, gemm, value);
  if (const auto memory_bound = memory_bound_key_named(key)) {
    memory_bound->field.in(
        cluster.device.achieved.memory_bound[static_cast<std::size_t>(memory_bound->dtype)]) =
        value;
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
    add_memory_bound_values(cluster.device.achieved, dtype, values);
  }
  for (const AttentionKernel kernel : kKernels)
    kAttention.add_values(cluster.device.achieved, kernel, values);
  for (const auto& entry : kFields) {
    if (!entry.of_hosts || entry.get(cluster) != 0.0)
      values.push_back({entry.name, entry.get(cluster), entry.unit});
  }
  return values;
}

}  // namespace llmsim::hwdb
