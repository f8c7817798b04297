#include "hwdb/profile/trace_builder.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr std::size_t kMostNameBytes = std::size_t{64} << 20;
constexpr std::size_t kMostEvents = std::size_t{1} << 27;
constexpr std::int64_t kMostMicroseconds = std::int64_t{90} * 365 * 24 * 3600 * 1'000'000;
constexpr int kNanosecondDigits = 3;

template <class Map, class Key, class List, class Value>
std::uint32_t place_of(Map& map, const Key& key, List& list, const Value& value) {
  const auto [found, is_new] = map.try_emplace(key, static_cast<std::uint32_t>(list.size()));
  if (is_new) list.push_back(value);
  return found->second;
}

}  // namespace

std::uint32_t TraceBuilder::name(const std::string& text) {
  const auto found = names_.find(text);
  return found != names_.end() ? found->second : name(text, class_of_kernel(text));
}

std::uint32_t TraceBuilder::name(const std::string& text, KernelClass kernels) {
  if (const auto found = names_.find(text); found != names_.end()) return found->second;
  name_bytes_ += text.size();
  if (name_bytes_ > kMostNameBytes)
    throw Error(trace_.file + ": names of kernels take more than 64 MiB; no profiler writes that");
  return place_of(names_, text, trace_.names, KernelName{text, kernels, is_backward_kernel(text)});
}

std::uint32_t TraceBuilder::collective(const CollectiveCall& call) {
  std::string key = call.group + '\n' + call.description + '\n' + std::to_string(call.ranks) +
                    '\n' + std::to_string(call.message.value()) + '\n' +
                    (call.kind ? sim::name_of(*call.kind) : "");
  return place_of(collectives_, std::move(key), trace_.collectives, call);
}

std::uint32_t TraceBuilder::shape(const GemmShape& shape) {
  return place_of(shapes_, shape, trace_.shapes, shape);
}

void TraceBuilder::add(const DeviceEvent& event) {
  if (trace_.events.size() >= kMostEvents)
    throw Error(trace_.file + ": has more than 134 million kernels; profile fewer steps");
  trace_.events.push_back(event);
}

ProfileTrace TraceBuilder::finish(const std::string& sought) {
  if (trace_.events.empty()) throw Error(trace_.file + ": has no kernel of a device; " + sought);
  std::ranges::sort(trace_.events, [](const DeviceEvent& a, const DeviceEvent& b) {
    return std::tuple(a.start, a.duration, a.name) < std::tuple(b.start, b.duration, b.name);
  });
  std::ranges::sort(trace_.steps, {}, &TimeSpan::start);
  std::ranges::sort(trace_.loading, {}, &TimeSpan::start);
  return std::move(trace_);
}

std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  const bool exponent = text.find_first_of("eE") != std::string_view::npos;
  std::int64_t whole = 0;
  const char *begin = text.data(), *end = begin + text.size();
  auto [rest, error] = std::from_chars(begin, end, whole);
  if (exponent || error != std::errc{}) {
    double value = 0.0;
    const auto [stop, wrong] = std::from_chars(begin, end, value);
    if (wrong != std::errc{} || stop != end || !(std::abs(value) < double(kMostMicroseconds)))
      return std::nullopt;
    return std::llround(value * 1e3);
  }
  if (std::abs(whole) > kMostMicroseconds) return std::nullopt;
  std::int64_t fraction = 0;
  if (rest != end && *rest == '.') {
    ++rest;
    for (int digit = 0; digit < kNanosecondDigits; ++digit)
      fraction =
          10 * fraction +
          (rest != end && std::isdigit(static_cast<unsigned char>(*rest)) ? *rest++ - '0' : 0);
    while (rest != end && std::isdigit(static_cast<unsigned char>(*rest))) ++rest;
  }
  if (rest != end) return std::nullopt;
  return 1000 * whole + (text.starts_with('-') ? -fraction : fraction);
}

std::optional<sim::CollectiveKind> collective_named(std::string_view name) {
  std::string small;
  for (const char c : name)
    if (c != '_' && c != ' ')
      small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  using enum sim::CollectiveKind;
  constexpr std::pair<const char*, sim::CollectiveKind> kNames[] = {
      {"allreduce", AllReduce}, {"allgather", AllGather}, {"reducescatter", ReduceScatter},
      {"alltoall", AllToAll},   {"all2all", AllToAll},    {"broadcast", Broadcast},
      {"sendrecv", SendRecv},   {"send", SendRecv},       {"recv", SendRecv},
      {"dispatch", AllToAll},   {"combine", AllToAll}};
  for (const auto& [word, kind] : kNames)
    if (small.find(word) != std::string::npos) return kind;
  return std::nullopt;
}

}  // namespace llmsim::hwdb
