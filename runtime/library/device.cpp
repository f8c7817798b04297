#include "runtime/library/device.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include "runtime/library/accelerator.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

namespace fs = std::filesystem;

// The text behind "KEY :" in a file of such lines.
std::optional<std::string> field_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0.0;
  if (file >> value) return value;
  return std::nullopt;
}

sim::Bytes kibibytes(const std::optional<std::string>& text) {
  return text ? std::strtod(text->c_str(), nullptr) * sim::KiB : sim::Bytes(0.0);
}

int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// The largest cache of the first core.
sim::Bytes last_level_cache() {
  sim::Bytes largest;
  for (int level = 0; level < 8; ++level) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) +
                       "/size");
    std::string size;
    if (file >> size)
      largest = std::max(
          largest, std::strtod(size.c_str(), nullptr) * (size.back() == 'M' ? sim::MiB : sim::KiB));
  }
  return largest;
}

// Where the accelerator's library does not tell.
std::string accelerator_name() {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    if (const auto name = field_of(entry.path() / "information", "Model")) return *name;
  }
  return "accelerator";
}

std::string blas_name() {
  using Name = char* (*)();
  if (const auto openblas = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_config")))
    return openblas();
  return at::hasMKL() ? "MKL" : "unknown BLAS";
}

std::string operating_system() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release + " " + names.machine
                            : "unknown";
}

// libtorch's functions take no "current device".
c10::Device numbered(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (device.has_index()) return device;
  return guard.getDevice();
}

template <typename Event>
std::optional<double> elapsed_ms(Event& start, Event& end) {
  if constexpr (requires { start.elapsedTime(end); }) return start.elapsedTime(end);
  return std::nullopt;
}

sim::Seconds host_time(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return since(start);
}

}  // namespace

c10::Device device_named(const std::string& name) {
  try {
    const c10::Device device(name);
    if (device.is_cpu() || device.is_meta()) return device;
    if (c10::impl::hasDeviceGuardImpl(device.type())) return numbered(device);
  } catch (const c10::Error&) {
    throw Error("--device = " + name + ": cpu, cuda or cuda:N is expected");
  }
  throw Error("--device = " + name + ": this libtorch has no such device; cpu is always there");
}

std::string default_device() {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) return "cpu";
  return c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0 ? "cuda" : "cpu";
}

Environment environment(c10::Device device) {
  Environment machine{.device = {},
                      .kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true),
                      .cores = allowed_cores(),
                      .threads = at::get_num_threads(),
                      .libtorch = TORCH_VERSION,
                      .blas = blas_name(),
                      .operating_system = operating_system(),
                      .driver = {},
                      .multiplies_bf16 = multiplies_in(device, at::kBFloat16)};
  if (!device.is_cuda()) {
    machine.device = field_of("/proc/cpuinfo", "model name").value_or("CPU");
    machine.memory = kibibytes(field_of("/proc/meminfo", "MemTotal"));
    machine.last_level_cache = last_level_cache();
    return machine;
  }
  const AcceleratorFacts facts = accelerator_facts(device);
  machine.device = facts.name ? *facts.name : accelerator_name();
  machine.driver = facts.driver.value_or("");
  machine.runtime_version = facts.runtime_version.value_or(0);
  if (!facts.memory)
    throw Error(
        "the device does not say how much memory it has: neither libcudart nor libamdhip64 "
        "answers");
  machine.memory = *facts.memory;
  machine.last_level_cache = facts.cache.value_or(sim::Bytes(0.0));
  machine.compute_units = facts.compute_units.value_or(0);
  return machine;
}

bool multiplies_in(c10::Device device, c10::ScalarType type) {
  try {
    const at::Tensor a = at::ones({16, 16}, at::TensorOptions(type).device(device));
    at::mm(a, a);
    return true;
  } catch (const c10::Error&) {
    return false;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void use_threads(int threads) {
  at::set_num_threads(threads);
  using Set = void (*)(int);
  if (const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(threads);
}

void wait_passively(char** arguments) {
  constexpr int kOwnThreads = 1;  // OPENBLAS_THREAD of openblas_get_parallel; 2: those of OpenMP
  using Parallel = int (*)();
  const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (parallel == nullptr || parallel() != kOwnThreads || std::getenv("OMP_WAIT_POLICY")) return;
  setenv("OMP_WAIT_POLICY", "passive", 0);
  execv("/proc/self/exe", arguments);
}

void keep_freed_memory() {
  constexpr int kNever = -1, kGrowBy = 64 << 20;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kGrowBy);
}

std::optional<sim::Bytes> available_memory(c10::Device device) {
  if (device.is_cuda()) return accelerator_facts(device).free_memory;
  if (!device.is_cpu()) return std::nullopt;
  const auto free = field_of("/proc/meminfo", "MemAvailable");
  return free ? std::optional(kibibytes(free)) : std::nullopt;
}

PowerState power_state(c10::Device device) {
  PowerState state;
  if (!device.is_cpu()) return state;
  if (const auto kilohertz = number_in("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")) {
    state.clock_hz = *kilohertz * 1e3;
  } else if (const auto megahertz = field_of("/proc/cpuinfo", "cpu MHz")) {
    state.clock_hz = std::strtod(megahertz->c_str(), nullptr) * 1e6;
  }
  if (const auto microwatts = number_in("/sys/class/hwmon/hwmon0/power1_average"))
    state.watts = *microwatts * 1e-6;
  return state;
}

void synchronize(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  c10::Event now(device.type());
  now.record(guard.getStream(device));
  while (!now.query()) {
  }
}

sim::Seconds since(std::chrono::steady_clock::time_point start) {
  return sim::Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

sim::Seconds timed(c10::Device device, const std::function<void()>& work) {
  if (device.is_cpu() || device.is_meta()) return host_time(work);
  const c10::impl::VirtualGuardImpl guard(device.type());
  c10::Event start(device.type(), c10::EventFlag::BACKEND_DEFAULT),
      end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  start.record(guard.getStream(device));
  const sim::Seconds host = host_time([&] {
    work();
    end.record(guard.getStream(device));
    synchronize(device);
  });
  const std::optional<double> elapsed = elapsed_ms(start, end);
  return elapsed ? sim::Seconds(*elapsed * 1e-3) : host;
}

// On accelerators the ends of laps, on the CPU their sums.
struct Stopwatch::Impl {
  c10::Device device;
  std::vector<std::pair<int, c10::Event>> ends{};
  std::chrono::steady_clock::time_point before = std::chrono::steady_clock::now();
  Laps laps{};

  void add(int kind, sim::Seconds time) {
    std::optional<sim::Seconds>& sum = laps.at(static_cast<std::size_t>(kind));
    sum = sum.value_or(sim::Seconds(0.0)) + time;
  }
  void mark(int kind) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    ends.emplace_back(kind, c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT));
    ends.back().second.record(guard.getStream(device));
  }
};

Stopwatch::Stopwatch(c10::Device device) : impl_(new Impl{.device = device}) {
  if (device.is_cuda()) impl_->mark(0);
}
Stopwatch::~Stopwatch() = default;

void Stopwatch::lap(int kind) {
  if (impl_->device.is_cuda()) return impl_->mark(kind);
  impl_->add(kind, since(impl_->before));
  impl_->before = std::chrono::steady_clock::now();
}

Stopwatch::Laps Stopwatch::read() {
  if (!impl_->device.is_cuda()) return impl_->laps;
  synchronize(impl_->device);
  for (std::size_t i = 1; i < impl_->ends.size(); ++i) {
    auto& [kind, end] = impl_->ends[i];
    if (const auto elapsed = elapsed_ms(impl_->ends[i - 1].second, end))
      impl_->add(kind, sim::Seconds(*elapsed * 1e-3));
  }
  impl_->ends.clear();
  return impl_->laps;
}

}  // namespace llmsim::runtime
