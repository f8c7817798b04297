#include "runtime/measure/node_check.h"

#include <algorithm>
#include <map>
#include <memory>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "runtime/library/device.h"
#include "runtime/measure/statistics.h"
#include "sim/base/dtype.h"

namespace llmsim::runtime {
namespace {

using sim::Seconds;

constexpr double kNoise = 3.0;          // half-widths of the interval of a median
constexpr double kSmallestGap = 0.15;   // of the fast repeats
constexpr double kSmallestGroup = 0.2;  // of all repeats
constexpr double kMostLinks = 0.5;      // of a rank's links are slow: it is the rank's fault

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string ratio_text(double ratio) { return fmt::format("{:.2f}x", ratio); }

// Times of the same work by different ranks or links.
struct Compared {
  std::vector<Timing> timings;
  double median = 0.0;
  double noise = 0.0;

  explicit Compared(const std::vector<Times>& all) {
    std::vector<double> medians, widths;
    for (const Times& times : all) {
      timings.push_back(summary(times));
      medians.push_back(timings.back().median.value());
      widths.push_back(timings.back().half_width);
    }
    if (all.empty()) return;
    median = upper_median(medians);
    noise = upper_median(widths);
  }

  // Of those that are slow.
  std::optional<double> slowness(std::size_t i, double tolerance) const {
    const double ratio = timings[i].median.value() / median;
    const double allowed = std::max(tolerance, kNoise * (timings[i].half_width + noise));
    if (ratio > 1.0 + allowed) return ratio;
    return std::nullopt;
  }
};

class Judge {
 public:
  Judge(const NodeReadings& readings, double tolerance)
      : readings_(readings), tolerance_(tolerance) {}

  void ranks(const std::vector<Times>& all, Fault fault, const std::string& work,
             const std::string& cause) {
    const Compared compared(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int rank = static_cast<int>(i);
      if (const auto ratio = compared.slowness(i, tolerance_)) {
        add(fault, {rank}, *ratio,
            name(rank) + ": " + work + " takes " + ratio_text(*ratio) +
                " the median of all ranks: " + cause);
      }
      if (const auto ratio = two_groups(all[i])) {
        add(Fault::Bimodal, {rank}, *ratio,
            name(rank) + ": " + work + " takes now the one, now " + ratio_text(*ratio) +
                " the time: throttled, or shared with others");
      }
    }
  }

  // Links of one kind.
  void links(bool within_node) {
    std::vector<const LinkTimes*> alike;
    std::vector<Times> all;
    for (const LinkTimes& link : readings_.links) {
      if ((host(link.first) == host(link.second)) != within_node) continue;
      alike.push_back(&link);
      all.push_back(link.times);
    }
    const Compared compared(all);
    std::map<int, int> of_rank, slow_of_rank;
    std::vector<std::pair<const LinkTimes*, double>> slow;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto ratio = compared.slowness(i, tolerance_);
      for (const int rank : {alike[i]->first, alike[i]->second})
        ++of_rank[rank], slow_of_rank[rank] += ratio ? 1 : 0;
      if (ratio) slow.push_back({alike[i], *ratio});
    }
    blame(slow, of_rank, slow_of_rank, within_node ? "links within nodes" : "links across nodes");
  }

  std::vector<Finding> findings() && {
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.ratio > b.ratio; });
    return std::move(findings_);
  }

 private:
  // A rank most of whose links are slow explains them; the others stand alone.
  void blame(const std::vector<std::pair<const LinkTimes*, double>>& slow,
             std::map<int, int>& of_rank, std::map<int, int>& slow_of_rank,
             const std::string& kind) {
    std::map<int, double> worst;
    for (const auto& [link, ratio] : slow) {
      bool explained = false;
      for (const int rank : {link->first, link->second}) {
        if (of_rank[rank] < 2 || slow_of_rank[rank] <= kMostLinks * of_rank[rank]) continue;
        worst[rank] = std::max(worst[rank], ratio);
        explained = true;
      }
      if (!explained) {
        add(Fault::SlowLink, {link->first, link->second}, ratio,
            name(link->first) + " to " + name(link->second) + ": messages take " +
                ratio_text(ratio) + " the median of " + kind + ": slow link");
      }
    }
    for (const auto& [rank, ratio] : worst) {
      add(Fault::SlowLinks, {rank}, ratio,
          name(rank) + ": most of its messages take up to " + ratio_text(ratio) +
              " the median of " + kind + ": slow port");
    }
  }

  const std::string& host(int rank) const {
    return readings_.hosts[static_cast<std::size_t>(rank)];
  }
  std::string name(int rank) const {
    return "rank " + std::to_string(rank) + " (" + host(rank) + ")";
  }
  void add(Fault fault, std::vector<int> ranks, double ratio, std::string text) {
    findings_.push_back({fault, std::move(ranks), ratio, std::move(text)});
  }

  const NodeReadings& readings_;
  double tolerance_;
  std::vector<Finding> findings_;
};

// Every rank's times, by rank.
std::vector<Times> gathered(Communicator& world, const Times& own, c10::Device device) {
  std::vector<double> values;
  for (const Seconds time : own) values.push_back(time.value());
  const auto count = static_cast<std::int64_t>(values.size());
  const at::Tensor part = at::tensor(values, at::kDouble).to(device);
  const at::Tensor whole = at::empty({count * world.size()}, part.options());
  world.all_gather(whole, part);
  const at::Tensor all = whole.cpu();
  std::vector<Times> times(static_cast<std::size_t>(world.size()));
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    times[static_cast<std::size_t>(i / count)].push_back(Seconds(all.data_ptr<double>()[i]));
  }
  return times;
}

// One repeat more than asked for, the first, warms up.
Times repeat(int repeats, const std::function<Seconds()>& once) {
  once();
  Times times;
  for (int i = 0; i < repeats; ++i) times.push_back(once());
  return times;
}

class Links {
 public:
  Links(Communicator& world, const NodeCheckOptions& options) : world_(world), options_(options) {
    const auto count = static_cast<std::int64_t>(options.message / sim::size_of(sim::DType::Fp32));
    sent_ = at::rand({count}, at::TensorOptions(options.device));
    received_ = at::zeros_like(sent_);
  }

  Times ring() {
    const int next = (world_.rank() + 1) % world_.size(),
              previous = (world_.rank() + world_.size() - 1) % world_.size();
    return exchanged(next, previous);
  }

  // Of a pair, its lower rank's times count.
  std::vector<LinkTimes> pairs() {
    std::vector<LinkTimes> links;
    const int rounds = std::min(options_.most_rounds, world_.size() - 1 + world_.size() % 2);
    for (int round = 0; round < rounds; ++round) {
      const auto partner = partner_of(world_.rank(), round, world_.size());
      world_.barrier();
      const Times own = partner ? exchanged(*partner, *partner)
                                : Times(static_cast<std::size_t>(options_.repeats));
      const std::vector<Times> all = gathered(world_, own, options_.device);
      for (int rank = 0; rank < world_.size(); ++rank) {
        const auto other = partner_of(rank, round, world_.size());
        if (other && rank < *other)
          links.push_back({rank, *other, all[static_cast<std::size_t>(rank)]});
      }
    }
    return links;
  }

 private:
  Times exchanged(int to, int from) {
    return repeat(options_.repeats, [&] {
      return timed(options_.device, [&] {
        const auto sent = world_.start_send(sent_, to);
        world_.receive(received_, from);
        sent->wait();
      });
    });
  }

  Communicator& world_;
  const NodeCheckOptions& options_;
  at::Tensor sent_, received_;
};

}  // namespace

std::vector<Finding> findings_of(const NodeReadings& readings, double tolerance) {
  Judge judge(readings, tolerance);
  judge.ranks(readings.gemm, Fault::SlowGemm, "a GEMM", "slow device");
  judge.ranks(readings.copy, Fault::SlowCopy, "a memory copy", "slow memory");
  judge.ranks(readings.ring, Fault::SlowRing, "a message to the next rank while all send",
              "slow link");
  judge.links(true);
  judge.links(false);
  return std::move(judge).findings();
}

std::optional<double> two_groups(Times times) {
  std::sort(times.begin(), times.end());
  const auto n = times.size();
  const auto least =
      std::max<std::size_t>(2, static_cast<std::size_t>(kSmallestGroup * static_cast<double>(n)));
  for (std::size_t split = least; split + least <= n; ++split) {
    const Seconds gap = times[split] - times[split - 1];
    const Seconds widest = std::max(times[split - 1] - times.front(), times.back() - times[split]);
    if (gap > widest && gap > kSmallestGap * times[split - 1])
      return times[split] / times[split - 1];
  }
  return std::nullopt;
}

NodeProbes device_probes(c10::Device device, int size, sim::Bytes bytes) {
  const at::TensorOptions options(device);
  const at::Tensor a = at::rand({size, size}, options), b = at::rand({size, size}, options);
  const auto count = static_cast<std::int64_t>(bytes / sim::size_of(sim::DType::Fp32));
  const at::Tensor from = at::rand({count}, options), to = at::zeros({count}, options);
  auto gemm = std::make_shared<at::Tensor>(at::zeros_like(a));
  return {.gemm = [=] { return timed(device, [&] { at::mm_out(*gemm, a, b); }); },
          .copy = [=] { return timed(device, [&] { to.copy_(from); }); }};
}

NodeReadings read_nodes(Communicator& world, const std::vector<std::string>& hosts,
                        const NodeProbes& probes, const NodeCheckOptions& options) {
  NodeReadings readings{.hosts = hosts, .gemm = {}, .copy = {}, .ring = {}, .links = {}};
  world.barrier();
  const Times gemms = repeat(options.repeats, probes.gemm);
  world.barrier();
  const Times copies = repeat(options.repeats, probes.copy);
  readings.gemm = gathered(world, gemms, options.device);
  readings.copy = gathered(world, copies, options.device);
  if (world.size() == 1) return readings;
  Links links(world, options);
  world.barrier();
  readings.ring = gathered(world, links.ring(), options.device);
  readings.links = links.pairs();
  return readings;
}

std::optional<int> partner_of(int rank, int round, int ranks) {
  const int even = ranks + ranks % 2, others = even - 1;
  int partner = 0;
  if (rank == others) {
    // The one that would meet itself: 2 p = round modulo an odd number.
    partner = round % 2 == 0 ? round / 2 : (round + others) / 2;
  } else {
    partner = (round - rank + others) % others;
    if (partner == rank) partner = others;
  }
  if (partner == ranks) return std::nullopt;
  return partner;
}

}  // namespace llmsim::runtime
