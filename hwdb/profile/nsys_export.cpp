#include "hwdb/profile/nsys_export.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "hwdb/profile/trace_builder.h"
#include "hwdb/store/sqlite.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using sqlite::Connection;
using sqlite::Statement;

constexpr int kMostDevices = 1024;

bool has_table(const Connection& connection, const char* table) {
  Statement statement(connection, "SELECT count(*) FROM sqlite_master WHERE name = ?");
  statement.bind(std::string_view(table));
  return statement.step() && statement.integer(0) > 0;
}

bool has_column(const Connection& connection, const char* table, const char* column) {
  Statement statement(connection, "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?");
  statement.bind(std::string_view(table)).bind(std::string_view(column));
  return statement.step() && statement.integer(0) > 0;
}

// One trace for each device, in the order of their numbers.
class Devices {
 public:
  explicit Devices(std::string file) : file_(std::move(file)) {}

  TraceBuilder& of(std::int64_t device) {
    const auto [found, is_new] = builders_.try_emplace(device, file_);
    if (is_new && builders_.size() > kMostDevices)
      throw Error(file_ + ": has more than " + std::to_string(kMostDevices) + " devices");
    return found->second;
  }
  std::vector<ProfileTrace> finish(const std::vector<TimeSpan>& steps) {
    if (builders_.empty()) throw Error(file_ + ": has no kernel of a device; record with -t cuda");
    std::vector<ProfileTrace> traces;
    for (auto& [device, builder] : builders_) {
      builder.trace().steps = steps;
      builder.trace().rank = static_cast<int>(std::clamp<std::int64_t>(device, 0, 1 << 30));
      traces.push_back(builder.finish("record with -t cuda"));
    }
    return traces;
  }

 private:
  std::string file_;
  std::map<std::int64_t, TraceBuilder> builders_;
};

// Whether a row's times are times of this machine's clock.
bool add(TraceBuilder& builder, std::int64_t start, std::int64_t end, std::uint32_t name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  if (start < 0 || end < start || end > kMost) return false;
  DeviceEvent event{.start = start, .duration = end - start, .name = name};
  const KernelName& kernel = builder.trace().names[name];
  if (kernel.kernels == KernelClass::Collective)
    event.detail = builder.collective({.kind = collective_named(kernel.text)});
  builder.add(event);
  return true;
}

void read_kernels(const Connection& connection, Devices& devices) {
  Statement statement(
      connection,
      "SELECT k.start, k.end, k.deviceId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
      "JOIN StringIds s ON s.id = k.demangledName");
  while (statement.step()) {
    TraceBuilder& builder = devices.of(statement.integer(2));
    add(builder, statement.integer(0), statement.integer(1), builder.name(statement.text(3)));
  }
}

void read_copies(const Connection& connection, const std::string& table, Devices& devices) {
  if (!has_table(connection, table.c_str())) return;
  Statement statement(connection, "SELECT start, end, deviceId FROM " + table);
  const std::string name = table.ends_with("MEMSET") ? "memset" : "memcpy";
  while (statement.step()) {
    TraceBuilder& builder = devices.of(statement.integer(2));
    add(builder, statement.integer(0), statement.integer(1), builder.name(name, KernelClass::Copy));
  }
}

bool names_step(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool begins = text.starts_with("profilerstep#") || text.starts_with("step") ||
                      text.starts_with("iteration") || text.starts_with("iter");
  return begins && !text.empty() && std::isdigit(static_cast<unsigned char>(text.back()));
}

std::vector<TimeSpan> marked_steps(const Connection& connection) {
  std::vector<TimeSpan> steps;
  if (!has_table(connection, "NVTX_EVENTS")) return steps;
  if (has_column(connection, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")) {
    Statement processes(connection,
                        "SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL");
    if (processes.step() && processes.integer(0) > 1) return steps;
  }
  Statement statement(connection,
                      "SELECT n.start, n.end, coalesce(n.text, s.value) FROM NVTX_EVENTS n LEFT "
                      "JOIN StringIds s ON s.id = n.textId WHERE n.end IS NOT NULL "
                      "AND coalesce(n.text, s.value) IS NOT NULL");
  while (statement.step())
    if (names_step(statement.text(2)) && statement.integer(0) >= 0 &&
        statement.integer(1) > statement.integer(0))
      steps.push_back({statement.integer(0), statement.integer(1)});
  return steps;
}

}  // namespace

std::vector<ProfileTrace> read_nsys_export(const std::string& path) {
  const Connection connection(path, sqlite::Open::ReadOnly);
  if (!has_table(connection, "CUPTI_ACTIVITY_KIND_KERNEL") || !has_table(connection, "StringIds"))
    throw Error(path +
                ": is a database without CUPTI_ACTIVITY_KIND_KERNEL and StringIds; an "
                "export of Nsight Systems with kernels is expected");
  Devices devices(path);
  read_kernels(connection, devices);
  for (const char* table : {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"})
    read_copies(connection, table, devices);
  return devices.finish(marked_steps(connection));
}

}  // namespace llmsim::hwdb
