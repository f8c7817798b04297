#include "runtime/measure/rank_campaign.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/measure/agreement.h"
#include "runtime/measure/collective_bench.h"
#include "runtime/measure/node_check.h"
#include "runtime/measure/results.h"
#include "runtime/measure/sharing_bench.h"
#include "runtime/measure/step_file.h"
#include "runtime/parallel/world.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using sim::GBps;
using sim::Seconds;
using Clock = std::chrono::steady_clock;

constexpr double kTolerance = 0.1;
constexpr Seconds kLeastBudget{1.0};  // of a run that goes on with a file whose budget is spent
// Shares of the budget: what ranks of a host take from each other, their collectives, and their
// steps.
constexpr double kSharingShare = 0.05, kCollectiveShare = 0.4, kStepShare = 0.55;
constexpr double kCopyShare = 0.5;        // of what is free, for the copies of all ranks of a host
constexpr double kBuffersOfABench = 8.0;  // of one message: what is sent, received, and scratch

// What a rank of the check does again and again.
struct ProbeSizes {
  int gemm;
  sim::Bytes copy;
  sim::Bytes message;

  explicit ProbeSizes(bool cpu)
      : gemm(cpu ? 1024 : 8192),
        copy((cpu ? 64.0 : 1024.0) * sim::MiB),
        message((cpu ? 4.0 : 64.0) * sim::MiB) {}
};

c10::Device device_of(const ProcessPlace& place, c10::Device device) {
  if (device.is_cpu()) return device;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Device own(device.type(), static_cast<c10::DeviceIndex>(
                                           device_index(place.local_rank, guard.deviceCount())));
  guard.setDevice(own);
  return own;
}

void print(const NodeReadings& readings, const ProbeSizes& sizes) {
  const sim::Flops gemm =
      2.0 * sizes.gemm * sizes.gemm * static_cast<double>(sizes.gemm) * sim::FLOP;
  std::printf("%6s  %-24s  %16s  %11s  %11s\n", "rank", "host", "GEMM TFLOPS", "copy GB/s",
              "ring GB/s");
  for (std::size_t rank = 0; rank < readings.hosts.size(); ++rank) {
    const auto median = [&](const std::vector<Times>& all) { return summary(all[rank]).median; };
    std::printf("%6zu  %-24s  %16.3f  %11.1f", rank, readings.hosts[rank].c_str(),
                gemm / median(readings.gemm) / sim::TFLOPS,
                2.0 * sizes.copy / median(readings.copy) / GBps);
    if (readings.ring.empty()) {
      std::printf("  %11s\n", "-");
    } else {
      std::printf("  %11.2f\n", sizes.message / median(readings.ring) / GBps);
    }
  }
}

void check(Communicator& world, const std::vector<std::string>& hosts, c10::Device device) {
  const ProbeSizes sizes(device.is_cpu());
  NodeCheckOptions options;
  options.device = device;
  options.message = sizes.message;
  const NodeReadings readings =
      read_nodes(world, hosts, device_probes(device, sizes.gemm, sizes.copy), options);
  if (world.rank() != 0) return;
  print(readings, sizes);
  const std::vector<Finding> findings = findings_of(readings, kTolerance);
  for (const Finding& finding : findings) std::printf("%s\n", finding.text.c_str());
  if (findings.empty())
    std::printf("no rank or link is more than %.0f %% slower than the median\n",
                100.0 * kTolerance);
  std::fflush(stdout);
}

CollectiveBenchOptions bench_options(const ProcessPlace& place, const CampaignOptions& campaign,
                                     c10::Device device) {
  CollectiveBenchOptions options;
  options.device = device;
  options.ranks_per_node = place.local_ranks;
  options.gemm_size = device.is_cpu() ? 512 : 4096;
  options.after_gemms = device.is_cpu();
  options.budget = campaign.budget;
  if (campaign.quick && device.is_cpu()) options.dtypes = {sim::DType::Fp32};
  options.repeats = {.warm_up = campaign.quick ? 1 : 3,
                     .least = campaign.quick ? 3 : 7,
                     .precision = 0.03,
                     .budget = Seconds(1.0)};
  const double ranks_in_memory = device.is_cpu() ? place.local_ranks : 1;
  const sim::Bytes free = available_memory(device).value_or(environment(device).memory);
  options.largest = std::min((campaign.quick ? 0.0625 : 1.0) * sim::GiB,
                             free / ranks_in_memory / kBuffersOfABench);
  return options;
}

// Appends records, and shows how much of the time they took.
class Recorder {
 public:
  Recorder(ResultFile& file, Seconds budget) : file_(file), progress_(budget.value()) {}

  bool has(const std::string& key) const { return file_.contains(key); }
  void append(const json& record) {
    file_.append(record);
    const auto now = Clock::now();
    progress_.advance(std::chrono::duration<double>(now - last_).count(), record.at("key"));
    last_ = now;
  }

 private:
  ResultFile& file_;
  Progress progress_;
  Clock::time_point last_ = Clock::now();
};

// Of `recorder`, which rank 0 alone has.
template <class Options>
void record_with(Options& options, Recorder* recorder) {
  if (recorder == nullptr) return;
  options.has = [recorder](const std::string& key) { return recorder->has(key); };
  options.record = [recorder](const json& record) { recorder->append(record); };
}

void sharing(const ProcessPlace& place, Communicator& everyone, Seconds budget, c10::Device device,
             Recorder* recorder) {
  if (!device.is_cpu() || place.local_ranks == 1) return;
  const Environment machine = environment(device);
  SharingBenchOptions options{
      .local_rank = place.local_rank,
      .local_ranks = place.local_ranks,
      .cache = machine.last_level_cache,
      .memory = kCopyShare / place.local_ranks * available_memory(device).value_or(machine.memory),
      .budget = budget};
  record_with(options, recorder);
  bench_sharing(everyone, options);
}

void collectives(const World& world, Communicator& everyone, CollectiveBenchOptions options,
                 Recorder* recorder) {
  record_with(options, recorder);
  bench_collectives(
      everyone, [&](const GroupMembers& members) { return world.connect(members); }, options);
}

void steps(const World& world, const RankCampaignOptions& options, const CampaignOptions& campaign,
           c10::Device device, Recorder* recorder) {
  const std::vector<StepCase> cases =
      campaign.step_file.empty()
          ? parallel_step_cases(world.size(), device)
          : std::vector<StepCase>{read_step_file(campaign.step_file, device)};
  const Seconds each =
      campaign.budget / static_cast<double>(std::max<std::size_t>(1, cases.size()));
  const RepeatOptions repeats{.warm_up = 1,
                              .least = campaign.quick ? 2 : 3,
                              .precision = campaign.quick ? 0.03 : 0.01,
                              .budget = each};
  RankSteps ranks(
      world.roll_call(), [&](const GroupMembers& members) { return world.connect(members); },
      campaign.accelerator, options.timeout);
  for (const StepCase& one : cases) {
    if (answer_of_first(ranks.everyone(), recorder != nullptr && recorder->has(one.key), device))
      continue;
    const json record = ranks.measure(one, repeats);
    if (recorder != nullptr) recorder->append(record);
  }
}

}  // namespace

RankSteps::RankSteps(std::shared_ptr<RollCall> roll_call, RankGroups::Connect connect,
                     std::string accelerator, std::chrono::milliseconds timeout)
    : roll_call_(std::move(roll_call)),
      connect_(std::move(connect)),
      accelerator_(std::move(accelerator)),
      timeout_(timeout),
      everyone_(connect_all()) {}

std::unique_ptr<Communicator> RankSteps::connect_all() const {
  return connect_({.ranks = all_ranks(roll_call_->size()), .place = roll_call_->rank()});
}

json RankSteps::measure(const StepCase& one, const RepeatOptions& options) {
  if (auto record = measured(one, options)) return *std::move(record);
  everyone_.reset();
  // When all have left, all that gave up have said so.
  roll_call_->meet("left/" + one.key, all_ranks(roll_call_->size()), timeout_);
  json record = oom_record(one, accelerator_);
  for (const int rank : roll_call_->gave_up()) {
    record["oom_ranks"].push_back({{"rank", rank}, {"host", roll_call_->host_of(rank)}});
  }
  roll_call_->begin_again();
  everyone_ = connect_all();
  return record;
}

std::optional<json> RankSteps::measured(const StepCase& one, const RepeatOptions& options) {
  std::optional<RankGroups> groups;
  try {
    groups.emplace(one.setup.strategy, roll_call_->rank(), connect_);
    json record = measure_step(one, *groups, accelerator_, options, everyone_.get());
    if (record["outcome"] != "oom") return record;
    roll_call_->give_up();
  } catch (const std::exception&) {
    if (roll_call_->gave_up().empty()) throw;
  }
  if (groups) groups->abandon();
  everyone_->abandon();
  return std::nullopt;
}

void run_rank_campaign(const ProcessPlace& told, const RankCampaignOptions& options) {
  CampaignOptions campaign = options.campaign;
  const bool cpu = campaign.device.is_cpu();
  const World world(told, cpu ? Transport::Gloo : Transport::Nccl, options.timeout);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host_of(rank));
  const ProcessPlace place = with_hosts(told, hosts);
  const c10::Device device = device_of(place, campaign.device);
  if (campaign.threads == 0) campaign.threads = usual_threads(place.local_ranks);
  keep_freed_memory();
  install_memory_meter();
  use_threads(campaign.threads);
  std::optional<ResultFile> file;
  std::optional<Recorder> recorder;
  if ((options.collectives || campaign.steps) && place.rank == 0) {
    json header = campaign_header(campaign);
    header["ranks"] = place.ranks;
    header["ranks_per_node"] = place.local_ranks;
    file.emplace(campaign.output, campaign.resume ? Opening::Resume : Opening::Fresh, header);
    recorder.emplace(*file, campaign.budget);
  }
  if (recorder)
    for (const json& record : counted_records(campaign))
      if (!recorder->has(record.at("key"))) recorder->append(record);
  const auto everyone = world.connect_all();
  if (options.check) check(*everyone, hosts, device);
  Recorder* const records = recorder ? &*recorder : nullptr;
  const double shares = (options.collectives ? kSharingShare + kCollectiveShare : 0.0) +
                        (campaign.steps ? kStepShare : 0.0);
  const double elapsed = of_all_ranks(everyone.get(), file ? file->elapsed() : 0.0, device).front();
  const Seconds left = std::max(kLeastBudget, campaign.budget - Seconds(elapsed));
  const Seconds share = left / std::max(shares, kSharingShare);
  if (options.collectives) {
    sharing(place, *everyone, kSharingShare * share, device, records);
    campaign.budget = kCollectiveShare * share;
    collectives(world, *everyone, bench_options(place, campaign, device), records);
  }
  campaign.budget = kStepShare * share;
  if (campaign.steps) steps(world, options, campaign, device, records);
}

}  // namespace llmsim::runtime
