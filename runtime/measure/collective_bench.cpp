#include "runtime/measure/collective_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <set>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
#include "runtime/measure/agreement.h"
#include "runtime/measure/kernel_bench.h"
#include "sim/base/error.h"
#include "sim/cost/collective.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using sim::CollectiveKind;
using sim::Seconds;
using Clock = std::chrono::steady_clock;

constexpr CollectiveKind kKinds[] = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                     CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                     CollectiveKind::Broadcast,     CollectiveKind::SendRecv};
// Those that training hides behind GEMMs.
constexpr CollectiveKind kHidden[] = {CollectiveKind::AllReduce, CollectiveKind::AllGather,
                                      CollectiveKind::ReduceScatter};
constexpr double kGrowth = 4.0;
constexpr double kOverlapShare = 0.25;  // of the budget
constexpr double kRepeatsForOverlap = 40.0;
constexpr sim::Bytes kSmallestOverlap = 64.0 * sim::KiB, kLargestOverlap = 64.0 * sim::MiB;

at::ScalarType scalar_type(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::Fp32: return at::kFloat;
    case sim::DType::Fp16: return at::kHalf;
    case sim::DType::Bf16: return at::kBFloat16;
    default:
      throw Error(std::string("dtype = ") + sim::name_of(dtype) +
                  ": collectives are measured in fp32, fp16 and bf16");
  }
}

std::set<int> powers_of_two_up_to(int most) {
  std::set<int> powers;
  for (int power = 1; power <= most; power *= 2) powers.insert(power);
  return powers;
}

// What one rank brings to a collective of `bytes`.
struct Buffers {
  at::Tensor whole, other, part;

  Buffers(sim::Bytes bytes, int ranks, sim::DType dtype, c10::Device device) {
    const auto per_rank = static_cast<std::int64_t>(std::ceil(bytes / sim::size_of(dtype) / ranks));
    whole = at::rand({per_rank * ranks}, at::TensorOptions(device)).to(scalar_type(dtype));
    other = at::zeros_like(whole);
    part = at::zeros({per_rank}, whole.options());
  }
  double bytes() const { return static_cast<double>(whole.nbytes()); }
};

void send_to_next(Communicator& group, const Buffers& buffers) {
  const auto sent = group.start_send(buffers.whole, (group.rank() + 1) % group.size());
  group.receive(buffers.other, (group.rank() + group.size() - 1) % group.size());
  sent->wait();
}

void carry_out(CollectiveKind kind, Communicator& group, const Buffers& buffers) {
  switch (kind) {
    case CollectiveKind::AllReduce: return group.all_reduce(buffers.whole);
    case CollectiveKind::AllGather: return group.all_gather(buffers.whole, buffers.part);
    case CollectiveKind::ReduceScatter: return group.reduce_scatter(buffers.part, buffers.whole);
    case CollectiveKind::AllToAll: return group.all_to_all(buffers.other, buffers.whole);
    case CollectiveKind::Broadcast: return group.broadcast(buffers.whole, 0);
    case CollectiveKind::SendRecv: return send_to_next(group, buffers);
  }
}

std::unique_ptr<PendingCollective> started(CollectiveKind kind, Communicator& group,
                                           const Buffers& buffers) {
  if (kind == CollectiveKind::AllReduce) return group.start_all_reduce(buffers.whole);
  if (kind == CollectiveKind::AllGather) return group.start_all_gather(buffers.whole, buffers.part);
  return group.start_reduce_scatter(buffers.part, buffers.whole);
}

// What a collective is overlapped with: `times` GEMMs on the stream of the rank.
std::function<void(int times)> gemms_of(const CollectiveBenchOptions& options) {
  const at::Tensor a = at::rand({options.gemm_size, options.gemm_size},
                                at::TensorOptions(options.device)),
                   b = at::rand_like(a), c = at::empty_like(a);
  return [=](int times) {
    at::Tensor gemm = c;
    for (int i = 0; i < times; ++i) at::mm_out(gemm, a, b);
  };
}

// All that measures one kind of collective over one group: its ranks repeat as often as the world.
struct Series {
  Communicator& world;
  const CollectiveBenchOptions& options;
  const std::function<void(int times)>& gemms;
  CollectiveKind kind;
  sim::DType dtype;
  GroupShape shape;
  Communicator& group;

  Buffers buffers(sim::Bytes bytes) const { return {bytes, shape.ranks, dtype, options.device}; }
  Seconds agreed(Seconds own) const { return slowest(&world, own, options.device); }
  Seconds time(const Buffers& buffers) const {
    return timed(options.device, [&] { carry_out(kind, group, buffers); });
  }
  Seconds gemm_time(int count) const {
    return timed(options.device, [&] { gemms(count); });
  }
};

// `once` after all ranks have come, with the time of the slowest; a first time tells how many fit
// into the share.
Timing aligned(const Series& s, const std::function<Seconds()>& once, Seconds share) {
  const auto together = [&] {
    s.agreed(Seconds(0.0));
    return s.agreed(once());
  };
  const auto start = Clock::now();
  together();
  const double fitting = share / s.agreed(since(start));
  RepeatOptions repeats = s.options.repeats;
  repeats.most = static_cast<int>(
      std::clamp<double>(fitting, repeats.least, std::max(repeats.least, repeats.most)));
  return repeated(together, repeats);
}

Timing alone(const Series& s, const Buffers& buffers, Seconds share) {
  const auto once = [&] {
    if (s.options.after_gemms) s.gemms(1);
    return s.time(buffers);
  };
  return aligned(s, once, share);
}

std::string key_of(const std::string& type, const Series& s) {
  return type + "/" + sim::name_of(s.kind) + "/" + sim::name_of(s.dtype) + "/" +
         std::to_string(s.shape.ranks) + "x" + std::to_string(s.shape.stride);
}

bool known(const Series& s, const std::string& key) {
  return answer_of_first(s.world, s.options.has(key), s.options.device);
}

void publish(const Series& s, const json& record) {
  if (s.world.rank() == 0) s.options.record(record);
}

json described(const std::string& type, const Series& s, sim::Bytes bytes) {
  const sim::GroupPlacement place =
      sim::place_group({{s.shape.ranks, s.shape.stride}, {}}, s.options.ranks_per_node);
  return {{"type", type},
          {"key", key_of(type, s)},
          {"kind", sim::name_of(s.kind)},
          {"dtype", sim::name_of(s.dtype)},
          {"ranks", s.shape.ranks},
          {"stride", s.shape.stride},
          {"ranks_per_node", place.ranks_per_domain},
          {"nodes", place.domains},
          {"groups", s.world.size() / s.shape.ranks},
          {"bytes", Buffers(bytes, s.shape.ranks, s.dtype, at::kMeta).bytes()},
          {"outcome", "ok"}};
}

void add_rates(json& record, CollectiveKind kind, Seconds time) {
  const double algbw = record.at("bytes").get<double>() / time.value();
  record["algbw_bytes_per_s"] = algbw;
  record["busbw_bytes_per_s"] = algbw * sim::bus_factor(kind, record.at("ranks"));
}

// All sizes, while the share lasts.
void measure_sizes(const Series& s, Seconds share) {
  const CollectiveBenchOptions& options = s.options;
  Seconds expected;
  for (sim::Bytes bytes = options.smallest; bytes <= options.largest; bytes *= kGrowth) {
    if ((options.repeats.warm_up + options.repeats.least) * expected > share) return;
    const double sizes_left =
        1.0 + std::floor(std::log(options.largest / bytes) / std::log(kGrowth));
    json record = described("collective", s, bytes);
    record["key"] =
        key_of("collective", s) + "/" + std::to_string(static_cast<std::int64_t>(bytes.value()));
    if (known(s, record.at("key"))) continue;
    const auto start = Clock::now();
    const Timing timing = alone(s, s.buffers(bytes), share / sizes_left);
    share -= s.agreed(since(start));
    expected = kGrowth * timing.median;
    add_timing(record, timing);
    add_rates(record, s.kind, timing.median);
    publish(s, record);
  }
}

Seconds beside_collectives(const Series& s, const Buffers& buffers, int gemms, int collectives) {
  std::vector<std::unique_ptr<PendingCollective>> pending;
  for (int i = 0; i < collectives; ++i) pending.push_back(started(s.kind, s.group, buffers));
  const Seconds time = s.gemm_time(gemms);
  for (const auto& one : pending) one->wait();
  return time;
}

void use_own_stream(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.setDevice(device);
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
}

// Waited for on another thread, whose stream is not that of the GEMMs.
Seconds overlapped_with_gemms(const Series& s, const Buffers& buffers, int gemms) {
  const auto start = Clock::now();
  auto pending = started(s.kind, s.group, buffers);
  auto arrived = std::async(std::launch::async, [&] {
    use_own_stream(s.options.device);
    pending->wait();
    synchronize(s.options.device);
    return since(start);
  });
  s.gemms(gemms);
  synchronize(s.options.device);
  return arrived.get();
}

// The largest message that takes no longer than `longest`, found from one of the smallest size on.
sim::Bytes size_for_overlap(const Series& s, Seconds longest) {
  sim::Bytes bytes = std::min(s.options.largest, kSmallestOverlap);
  for (; kGrowth * bytes <= std::min(s.options.largest, kLargestOverlap); bytes *= kGrowth) {
    const Buffers buffers = s.buffers(bytes);
    s.agreed(s.time(buffers));  // warm
    if (kGrowth * s.agreed(s.time(buffers)) > longest) break;
  }
  return bytes;
}

// Overlapped with GEMMs that take as long.
void measure_overlap(const Series& s, Seconds share) {
  if (known(s, key_of("overlap", s))) return;
  const sim::Bytes bytes = size_for_overlap(s, share / kRepeatsForOverlap);
  const Buffers buffers = s.buffers(bytes);
  const auto median = [&](const std::function<Seconds()>& once, double of_share) {
    return aligned(s, once, of_share * share).median;
  };
  const Seconds collective = alone(s, buffers, 0.3 * share).median;
  const Seconds gemm = median([&] { return s.gemm_time(1); }, 0.1);
  const int gemms_alike = std::max(1, static_cast<int>(std::lround(collective / gemm)));
  const int collectives_over =
      1 + static_cast<int>(std::ceil(2.0 * gemms_alike * gemm / collective));
  const Seconds gemms_alone = median([&] { return s.gemm_time(gemms_alike); }, 0.2);
  const Seconds gemms_beside =
      median([&] { return beside_collectives(s, buffers, gemms_alike, collectives_over); }, 0.2);
  const Seconds collective_beside =
      median([&] { return overlapped_with_gemms(s, buffers, 2 * gemms_alike); }, 0.2);
  json record = described("overlap", s, bytes);
  record.update({{"gemm_size", s.options.gemm_size},
                 {"gemms", gemms_alike},
                 {"collective_alone_s", collective.value()},
                 {"collective_beside_s", collective_beside.value()},
                 {"collective_slowdown", collective_beside / collective},
                 {"gemm_alone_s", gemms_alone.value()},
                 {"gemm_beside_s", gemms_beside.value()},
                 {"gemm_slowdown", gemms_beside / gemms_alone}});
  publish(s, record);
}

}  // namespace

std::vector<GroupShape> group_shapes(int world, int ranks_per_node) {
  std::set<GroupShape> shapes;
  std::set<int> strides = powers_of_two_up_to(ranks_per_node);
  strides.insert(ranks_per_node);
  for (const int stride : strides) {
    if (world % stride != 0) continue;
    std::set<int> sizes = powers_of_two_up_to(world / stride);
    sizes.insert({ranks_per_node / stride, world / stride});
    for (const int ranks : sizes) {
      if (ranks > 1 && world / stride % ranks == 0) shapes.insert({ranks, stride});
    }
  }
  return {shapes.begin(), shapes.end()};
}

GroupMembers members_of(const GroupShape& shape, int rank) {
  GroupMembers members;
  members.place = rank / shape.stride % shape.ranks;
  const int first = rank - members.place * shape.stride;
  for (int i = 0; i < shape.ranks; ++i) members.ranks.push_back(first + i * shape.stride);
  return members;
}

void bench_collectives(Communicator& world, const RankGroups::Connect& connect,
                       const CollectiveBenchOptions& options) {
  const std::vector<GroupShape> shapes = group_shapes(world.size(), options.ranks_per_node);
  const double cases =
      static_cast<double>(std::max<std::size_t>(1, shapes.size() * options.dtypes.size()));
  const Seconds share = options.budget * (options.overlap ? 1.0 - kOverlapShare : 1.0) / cases;
  const Seconds overlap_share = kOverlapShare * options.budget / cases / std::size(kHidden);
  const std::function<void(int)> gemms = gemms_of(options);
  for (const GroupShape& shape : shapes) {
    const auto group = connect(members_of(shape, world.rank()));
    for (const sim::DType dtype : options.dtypes) {
      const auto series = [&](CollectiveKind kind) {
        return Series{world, options, gemms, kind, dtype, shape, *group};
      };
      for (const CollectiveKind kind : kKinds)
        measure_sizes(series(kind), share / std::size(kKinds));
      if (!options.overlap) continue;
      for (const CollectiveKind kind : kHidden) measure_overlap(series(kind), overlap_share);
    }
  }
}

}  // namespace llmsim::runtime
