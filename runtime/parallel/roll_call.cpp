#include "runtime/parallel/roll_call.h"

#include <cstdint>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string joined(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ","));
}

std::vector<int> split(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream stream(text);
  for (std::string rank; std::getline(stream, rank, ',');) ranks.push_back(std::stoi(rank));
  return ranks;
}

constexpr const char* kNobody = "nobody";

// Whether any rank has.
std::string gave_up_key(int beginning) { return "gave_up/" + std::to_string(beginning); }

std::string gave_up_key(int beginning, int rank) {
  return "gave_up/" + std::to_string(beginning) + "/" + std::to_string(rank);
}

std::string waits_key(int rank) { return "waits/" + std::to_string(rank); }

std::chrono::milliseconds left_until(Clock::time_point deadline) {
  return std::max(1ms,
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

// The ranks at the ends of the chains that begin at `missing`.
std::vector<int> silent_ranks(KeyStore& store, const std::vector<int>& missing) {
  std::vector<int> silent, open = missing;
  std::set<int> seen(missing.begin(), missing.end());
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    const auto next = waited_for(store, rank);
    if (!next) silent.push_back(rank);
    for (const int further : next.value_or(std::vector<int>{})) {
      if (seen.insert(further).second) open.push_back(further);
    }
  }
  return silent;
}

}  // namespace

RollCall::RollCall(KeyStore store, int rank, int size, std::string host)
    : store_(std::move(store)), rank_(rank), size_(size), host_(std::move(host)) {}

std::string RollCall::group_name(const std::vector<int>& ranks) {
  return "group/" + std::to_string(beginnings_) + "/" + joined(ranks) + "/" +
         std::to_string(groups_[ranks]++);
}

std::string RollCall::all_hosts(const std::string& key, const std::vector<int>& ranks) {
  std::string lines;
  for (const int rank : ranks)
    lines += store_.value(key + "/" + std::to_string(rank)).value_or("") + "\n";
  return lines;
}

std::vector<int> RollCall::missing_at(const std::string& key, const std::vector<int>& ranks) {
  std::vector<int> missing;
  for (const int rank : ranks) {
    if (const auto host = store_.value(key + "/" + std::to_string(rank))) {
      hosts_[rank] = *host;
    } else {
      missing.push_back(rank);
    }
  }
  return missing;
}

void RollCall::meet(const std::string& key, const std::vector<int>& ranks,
                    std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  store_.set(key + "/" + std::to_string(rank_), host_);
  const bool last = store_.add(key + "/came", 1) == static_cast<std::int64_t>(ranks.size());
  if (last) store_.set(key + "/hosts", all_hosts(key, ranks));
  if (const auto hosts = store_.await(key + "/hosts", left_until(deadline))) {
    std::istringstream lines(*hosts);
    for (const int rank : ranks) std::getline(lines, hosts_[rank]);
    return;
  }
  const std::vector<int> missing = missing_at(key, ranks);
  if (missing.empty()) return;  // the last one came as the time ran out
  throw Error("no answer from " + names(culprits(missing, 1s)) + " within " +
              std::to_string(patience.count() / 1000) + " s, when the group of ranks " +
              joined(ranks) + " was to be made");
}

std::vector<int> RollCall::culprits(const std::vector<int>& missing,
                                    std::chrono::milliseconds grace) try {
  store_.set(waits_key(rank_), joined(missing));
  const auto deadline = Clock::now() + grace;
  std::vector<int> silent = silent_ranks(store_, missing);
  while (!silent.empty() && Clock::now() < deadline && gave_up().empty()) {
    std::this_thread::sleep_for(20ms);
    silent = silent_ranks(store_, missing);
  }
  return silent.empty() ? missing : silent;
} catch (const Error&) {
  return missing;
}

void RollCall::give_up() {
  store_.set(gave_up_key(beginnings_, rank_), "");
  store_.set(gave_up_key(beginnings_), "");
}

std::vector<int> RollCall::gave_up() {
  std::vector<int> ranks;
  if (!store_.value(gave_up_key(beginnings_))) return ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (store_.value(gave_up_key(beginnings_, rank))) ranks.push_back(rank);
  }
  return ranks;
}

void RollCall::begin_again() {
  store_.set(waits_key(rank_), kNobody);
  groups_.clear();
  ++beginnings_;
}

std::string RollCall::names(const std::vector<int>& ranks) const {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]) + " (" + host_of(ranks[i]) + ")";
  }
  return text;
}

std::string RollCall::host_of(int rank) const {
  const auto host = hosts_.find(rank);
  return host == hosts_.end() ? "never came" : host->second;
}

std::optional<std::vector<int>> waited_for(KeyStore& store, int rank) {
  const auto text = store.value(waits_key(rank));
  if (!text || *text == kNobody) return std::nullopt;
  return split(*text);
}

}  // namespace llmsim::runtime
