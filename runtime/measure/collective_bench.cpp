#include "runtime/measure/collective_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
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

Seconds since(Clock::time_point start) {
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

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

class Bench {
 public:
  Bench(Communicator& world, const CollectiveBenchOptions& options)
      : world_(world), options_(options), gemms_(options) {}

  // All sizes of one kind over one group, while the share lasts.
  void series(CollectiveKind kind, sim::DType dtype, const GroupShape& shape, Communicator& group,
              Seconds share) {
    Seconds expected;
    for (sim::Bytes bytes = options_.smallest; bytes <= options_.largest; bytes *= kGrowth) {
      if ((options_.repeats.warm_up + options_.repeats.least) * expected > share) return;
      const double sizes_left =
          1.0 + std::floor(std::log(options_.largest / bytes) / std::log(kGrowth));
      json record = described("collective", kind, dtype, shape, bytes);
      record["key"] = key_of("collective", kind, dtype, shape) + "/" +
                      std::to_string(static_cast<std::int64_t>(bytes.value()));
      if (known(record.at("key"))) continue;
      const auto start = Clock::now();
      const Timing timing = alone(kind, group, Buffers(bytes, shape.ranks, dtype, options_.device),
                                  share / sizes_left);
      share -= agreed(since(start));
      expected = kGrowth * timing.median;
      add_timing(record, timing);
      add_rates(record, kind, timing.median);
      publish(record);
    }
  }

  // Beside GEMMs that take as long.
  void overlap(CollectiveKind kind, sim::DType dtype, const GroupShape& shape, Communicator& group,
               Seconds share) {
    if (known(key_of("overlap", kind, dtype, shape))) return;
    const sim::Bytes bytes = size_for(kind, dtype, shape, group, share / kRepeatsForOverlap);
    const Buffers buffers(bytes, shape.ranks, dtype, options_.device);
    const Seconds collective = alone(kind, group, buffers, 0.3 * share).median;
    const Seconds gemm =
        median([&] { return timed(options_.device, [&] { gemms_.run(1); }); }, 0.1 * share);
    const int gemms_alike = std::max(1, static_cast<int>(std::lround(collective / gemm)));
    const int collectives_over =
        1 + static_cast<int>(std::ceil(2.0 * gemms_alike * gemm / collective));
    const Seconds gemms_alone = median(
        [&] { return timed(options_.device, [&] { gemms_.run(gemms_alike); }); }, 0.2 * share);
    const Seconds gemms_beside = median(
        [&] { return beside_collectives(kind, group, buffers, gemms_alike, collectives_over); },
        0.2 * share);
    const Seconds collective_beside = median(
        [&] { return overlapped_with_gemms(kind, group, buffers, 2 * gemms_alike); }, 0.2 * share);
    json record = described("overlap", kind, dtype, shape, bytes);
    record.update({{"gemm_size", options_.gemm_size},
                   {"gemms", gemms_alike},
                   {"collective_alone_s", collective.value()},
                   {"collective_beside_s", collective_beside.value()},
                   {"collective_slowdown", collective_beside / collective},
                   {"gemm_alone_s", gemms_alone.value()},
                   {"gemm_beside_s", gemms_beside.value()},
                   {"gemm_slowdown", gemms_beside / gemms_alone}});
    publish(record);
  }

 private:
  struct Gemms {
    explicit Gemms(const CollectiveBenchOptions& options)
        : a(at::rand({options.gemm_size, options.gemm_size}, at::TensorOptions(options.device))),
          b(at::rand_like(a)),
          c(at::empty_like(a)) {}
    void run(int times) const {
      at::Tensor gemm = c;
      for (int i = 0; i < times; ++i) at::mm_out(gemm, a, b);
    }
    at::Tensor a, b, c;
  };

  // The same on every rank, so that all repeat equally often.
  Seconds agreed(Seconds own) {
    const at::Tensor slowest =
        at::full({1}, own.value(), at::TensorOptions(at::kDouble).device(options_.device));
    world_.all_reduce(slowest, Reduction::Max);
    return Seconds(slowest.item<double>());
  }

  // `once` after all ranks have come, with the time of the slowest; a first time tells how many fit
  // into the share.
  Timing aligned(const std::function<Seconds()>& once, Seconds share) {
    const auto together = [&] {
      agreed(Seconds(0.0));
      return agreed(once());
    };
    const auto start = Clock::now();
    together();
    const double fitting = share / agreed(since(start));
    RepeatOptions repeats = options_.repeats;
    repeats.most = static_cast<int>(
        std::clamp<double>(fitting, repeats.least, std::max(repeats.least, repeats.most)));
    return repeated(together, repeats);
  }
  Seconds median(const std::function<Seconds()>& once, Seconds share) {
    return aligned(once, share).median;
  }

  Timing alone(CollectiveKind kind, Communicator& group, const Buffers& buffers, Seconds share) {
    const auto once = [&] {
      if (options_.after_gemms) gemms_.run(1);
      return timed(options_.device, [&] { carry_out(kind, group, buffers); });
    };
    return aligned(once, share);
  }

  Seconds beside_collectives(CollectiveKind kind, Communicator& group, const Buffers& buffers,
                             int count, int collectives) {
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int i = 0; i < collectives; ++i) pending.push_back(started(kind, group, buffers));
    const Seconds time = timed(options_.device, [&] { gemms_.run(count); });
    for (const auto& one : pending) one->wait();
    return time;
  }

  // Waited for on another thread, whose stream is not that of the GEMMs.
  Seconds overlapped_with_gemms(CollectiveKind kind, Communicator& group, const Buffers& buffers,
                                int count) {
    const auto start = Clock::now();
    auto pending = started(kind, group, buffers);
    auto arrived = std::async(std::launch::async, [&] {
      use_own_stream();
      pending->wait();
      synchronize(options_.device);
      return since(start);
    });
    gemms_.run(count);
    synchronize(options_.device);
    return arrived.get();
  }

  void use_own_stream() const {
    if (options_.device.is_cpu()) return;
    const c10::impl::VirtualGuardImpl guard(options_.device.type());
    guard.setDevice(options_.device);
    guard.exchangeStream(guard.getStreamFromGlobalPool(options_.device));
  }

  // The largest message that takes no longer than `longest`, found from one of the smallest size
  // on.
  sim::Bytes size_for(CollectiveKind kind, sim::DType dtype, const GroupShape& shape,
                      Communicator& group, Seconds longest) {
    sim::Bytes bytes = std::min(options_.largest, kSmallestOverlap);
    for (; kGrowth * bytes <= std::min(options_.largest, kLargestOverlap); bytes *= kGrowth) {
      const Buffers buffers(bytes, shape.ranks, dtype, options_.device);
      const auto once = [&] {
        return timed(options_.device, [&] { carry_out(kind, group, buffers); });
      };
      agreed(once());  // warm
      if (kGrowth * agreed(once()) > longest) break;
    }
    return bytes;
  }

  static std::string key_of(const std::string& type, CollectiveKind kind, sim::DType dtype,
                            const GroupShape& shape) {
    return type + "/" + sim::name_of(kind) + "/" + sim::name_of(dtype) + "/" +
           std::to_string(shape.ranks) + "x" + std::to_string(shape.stride);
  }

  json described(const std::string& type, CollectiveKind kind, sim::DType dtype,
                 const GroupShape& shape, sim::Bytes bytes) const {
    const sim::GroupPlacement place =
        sim::place_group(shape.ranks, shape.stride, options_.ranks_per_node);
    return {{"type", type},
            {"key", key_of(type, kind, dtype, shape)},
            {"kind", sim::name_of(kind)},
            {"dtype", sim::name_of(dtype)},
            {"ranks", shape.ranks},
            {"stride", shape.stride},
            {"ranks_per_node", place.ranks_per_domain},
            {"nodes", place.domains},
            {"groups", world_.size() / shape.ranks},
            {"bytes", Buffers(bytes, shape.ranks, dtype, at::kMeta).bytes()},
            {"outcome", "ok"}};
  }

  static void add_rates(json& record, CollectiveKind kind, Seconds time) {
    const double algbw = record.at("bytes").get<double>() / time.value();
    record["algbw_bytes_per_s"] = algbw;
    record["busbw_bytes_per_s"] = algbw * sim::bus_factor(kind, record.at("ranks"));
  }

  // Rank 0 knows.
  bool known(const std::string& key) {
    const at::Tensor answer = at::zeros({1}, at::TensorOptions(at::kLong).device(options_.device));
    if (world_.rank() == 0 && options_.has(key)) answer.fill_(1);
    world_.broadcast(answer, 0);
    return answer.item<std::int64_t>() == 1;
  }

  void publish(const json& record) const {
    if (world_.rank() == 0) options_.record(record);
  }

  Communicator& world_;
  const CollectiveBenchOptions& options_;
  Gemms gemms_;
};

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
  Bench bench(world, options);
  for (const GroupShape& shape : shapes) {
    const auto group = connect(members_of(shape, world.rank()));
    for (const sim::DType dtype : options.dtypes) {
      for (const CollectiveKind kind : kKinds)
        bench.series(kind, dtype, shape, *group, share / std::size(kKinds));
      if (!options.overlap) continue;
      for (const CollectiveKind kind : kHidden) {
        bench.overlap(kind, dtype, shape, *group,
                      kOverlapShare * options.budget / cases / std::size(kHidden));
      }
    }
  }
}

}  // namespace llmsim::runtime
