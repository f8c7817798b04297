#include "runtime/library/accelerator.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

namespace llmsim::runtime {
namespace {

template <class Function>
Function symbol(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

// The first of these libraries that is there, or that the process has loaded already.
void* opened(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_GLOBAL)) return library;
  }
  return nullptr;
}

// The runtime library of the device.  Attributes have numbers of their own in HIP.
struct DeviceLibrary {
  int (*memory)(std::size_t* free, std::size_t* total);
  int (*attribute)(int* value, int which, int device);
  int (*set_device)(int device);
  int (*get_device)(int* device);
  int (*pci_bus_id)(char* text, int size, int device);
  int (*version)(int*);
  int cache_attribute, units_attribute;

  bool usable() const { return memory && attribute && set_device && get_device; }
};

// cudaDevAttrL2CacheSize = 38, cudaDevAttrMultiProcessorCount = 16; hipDeviceAttributeL2CacheSize =
// 19, hipDeviceAttributeMultiprocessorCount = 63 (hip_runtime_api.h of ROCm 5 and 6).
DeviceLibrary device_library() {
  // What libtorch has loaded comes first: another copy would have a state of its own.
  void* cuda = RTLD_DEFAULT;
  if (symbol<void*>(cuda, "cudaMemGetInfo") == nullptr &&
      symbol<void*>(cuda, "hipMemGetInfo") == nullptr)
    cuda = opened({"libcudart.so.13", "libcudart.so.12", "libcudart.so", "libamdhip64.so"});
  const bool hip = symbol<void*>(cuda, "cudaMemGetInfo") == nullptr;
  const auto named = [&](const char* with_cuda, const char* with_hip) {
    return symbol<void*>(cuda, hip ? with_hip : with_cuda);
  };
  DeviceLibrary library{};
  const auto set = [&](auto& function, const char* with_cuda, const char* with_hip) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(named(with_cuda, with_hip));
  };
  set(library.memory, "cudaMemGetInfo", "hipMemGetInfo");
  set(library.attribute, "cudaDeviceGetAttribute", "hipDeviceGetAttribute");
  set(library.set_device, "cudaSetDevice", "hipSetDevice");
  set(library.get_device, "cudaGetDevice", "hipGetDevice");
  set(library.pci_bus_id, "cudaDeviceGetPCIBusId", "hipDeviceGetPCIBusId");
  set(library.version, "cudaRuntimeGetVersion", "hipRuntimeGetVersion");
  library.cache_attribute = hip ? 19 : 38;
  library.units_attribute = hip ? 63 : 16;
  return library;
}

const DeviceLibrary& devices() {
  static const DeviceLibrary library = device_library();
  return library;
}

// The device is current while this lives.
class Current {
 public:
  explicit Current(int device) {
    devices().get_device(&before_);
    devices().set_device(device);
  }
  ~Current() { devices().set_device(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
};

std::optional<int> attribute_of(int device, int which) {
  int value = 0;
  if (devices().attribute(&value, which, device) != 0 || value <= 0) return std::nullopt;
  return value;
}

// NVML; all null where it is not there, or tells nothing.
struct ManagementLibrary {
  int (*name)(void* device, char* text, unsigned size);
  int (*clock)(void* device, int which, unsigned* megahertz);
  int (*power)(void* device, unsigned* milliwatts);
  int (*temperature)(void* device, int sensor, unsigned* celsius);
  int (*reasons)(void* device, unsigned long long* bits);
  int (*by_bus)(const char* bus, void** device);
  int (*driver)(char* text, unsigned size);
};

ManagementLibrary management_library() {
  ManagementLibrary nvml{};
  void* library = opened({"libnvidia-ml.so.1"});
  const auto start = symbol<int (*)()>(library, "nvmlInit_v2");
  if (start == nullptr || start() != 0) return nvml;
  const auto set = [&](auto& function, const char* name) {
    function = symbol<std::decay_t<decltype(function)>>(library, name);
  };
  set(nvml.name, "nvmlDeviceGetName");
  set(nvml.clock, "nvmlDeviceGetClockInfo");
  set(nvml.power, "nvmlDeviceGetPowerUsage");
  set(nvml.temperature, "nvmlDeviceGetTemperature");
  set(nvml.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  set(nvml.by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  set(nvml.driver, "nvmlSystemGetDriverVersion");
  return nvml;
}

const ManagementLibrary& management() {
  static const ManagementLibrary library = management_library();
  return library;
}

void* looked_up(c10::Device device) {
  if (management().by_bus == nullptr || devices().pci_bus_id == nullptr) return nullptr;
  std::array<char, 64> bus{};
  if (devices().pci_bus_id(bus.data(), static_cast<int>(bus.size()), device.index()) != 0)
    return nullptr;
  void* handle = nullptr;
  return management().by_bus(bus.data(), &handle) == 0 ? handle : nullptr;
}

// Of the device as the process counts it: NVML counts all of the machine.  Asked for once: the
// device's own library must not be called while another thread captures a graph.
void* managed(c10::Device device) {
  static std::mutex mutex;
  static std::map<int, void*> handles;
  const std::scoped_lock lock(mutex);
  const auto [place, is_new] = handles.try_emplace(device.index(), nullptr);
  if (is_new) place->second = looked_up(device);
  return place->second;
}

template <class... Arguments, class Value>
std::optional<double> read(int (*function)(void*, Arguments...), Value& value, void* device,
                           double unit, auto... which) {
  if (function == nullptr || function(device, which..., &value) != 0) return std::nullopt;
  return unit * static_cast<double>(value);
}

constexpr int kSmClock = 1, kDie = 0;  // nvmlClockType_t, nvmlTemperatureSensors_t

}  // namespace

AcceleratorFacts accelerator_facts(c10::Device device) {
  AcceleratorFacts facts;
  std::array<char, 128> text{};
  if (void* handle = managed(device)) {
    const auto size = static_cast<unsigned>(text.size());
    if (management().name && management().name(handle, text.data(), size) == 0)
      facts.name = text.data();
    if (management().driver && management().driver(text.data(), size) == 0)
      facts.driver = text.data();
  }
  if (!devices().usable()) return facts;
  const Current current(device.index());
  std::size_t free = 0, total = 0;
  if (devices().memory(&free, &total) == 0) {
    facts.memory = sim::Bytes(static_cast<double>(total));
    facts.free_memory = sim::Bytes(static_cast<double>(free));
  }
  if (const auto bytes = attribute_of(device.index(), devices().cache_attribute))
    facts.cache = sim::Bytes(*bytes);
  facts.compute_units = attribute_of(device.index(), devices().units_attribute);
  if (int version = 0; devices().version && devices().version(&version) == 0)
    facts.runtime_version = version;
  return facts;
}

AcceleratorState accelerator_state(c10::Device device) {
  AcceleratorState state;
  void* handle = managed(device);
  if (handle == nullptr) return state;
  unsigned value = 0;
  state.clock_hz = read(management().clock, value, handle, 1e6, kSmClock);
  state.watts = read(management().power, value, handle, 1e-3);
  state.temperature = read(management().temperature, value, handle, 1.0, kDie);
  if (unsigned long long bits = 0; management().reasons && management().reasons(handle, &bits) == 0)
    state.throttle_reasons = bits;
  return state;
}

// Bits of nvml.h; an idle device and clocks that an application asked for are no throttling.
std::vector<std::string> throttle_names(std::uint64_t reasons) {
  constexpr std::pair<std::uint64_t, const char*> kReasons[] = {
      {0x04, "power_cap"},        {0x08, "hardware"},         {0x10, "sync_boost"},
      {0x20, "software_thermal"}, {0x40, "hardware_thermal"}, {0x80, "power_brake"}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons) {
    if ((reasons & bit) != 0) names.emplace_back(name);
  }
  return names;
}

}  // namespace llmsim::runtime
