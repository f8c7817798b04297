#include "hwdb/profile/kineto_trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "hwdb/profile/trace_builder.h"
#include "hwdb/text/read_budget.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Operands of an operator, and sizes of one, that are looked at.
constexpr std::size_t kMostDims = 8;
constexpr std::size_t kMostOperands = 16;

// --- one event ---

// What an event says, while it is read.
struct EventText {
  std::string phase, category, name;
  std::optional<std::int64_t> start, duration;
  std::int64_t process = 0, thread = 0;
  std::optional<std::int64_t> external_id;
  std::string collective, dtype, group, description;
  std::int64_t in_elements = 0, out_elements = 0, ranks = 0;
  std::vector<std::vector<std::int64_t>> dims;        // of the inputs
  std::vector<std::pair<std::string, double>> terms;  // of a predicted pass, in seconds

  void clear();
  bool is_whole() const { return phase == "X" && start && duration && *duration >= 0; }
};

void EventText::clear() {
  for (std::string* text : {&phase, &category, &name, &collective, &dtype, &group, &description})
    text->clear();
  start = duration = external_id = std::nullopt;
  process = thread = in_elements = out_elements = ranks = 0;
  dims.clear();
  terms.clear();
}

double element_bytes(const std::string& dtype) {
  constexpr std::pair<const char*, double> kBytes[] = {
      {"Float8", 1.0}, {"Float", 4.0}, {"BFloat16", 2.0}, {"Half", 2.0},
      {"Double", 8.0}, {"Long", 8.0},  {"Int", 4.0},      {"Short", 2.0},
      {"Byte", 1.0},   {"Char", 1.0},  {"Bool", 1.0}};
  for (const auto& [name, bytes] : kBytes)
    if (dtype.starts_with(name)) return bytes;
  return 0.0;
}

CollectiveCall call_of(const EventText& event) {
  CollectiveCall call{.kind = collective_named(event.collective),
                      .group = event.group,
                      .description = event.description,
                      .ranks = static_cast<int>(std::clamp<std::int64_t>(event.ranks, 0, 1 << 24))};
  if (!call.kind) call.kind = collective_named(event.name);
  const bool gathers = call.kind == sim::CollectiveKind::AllGather;
  const std::int64_t elements = gathers ? event.out_elements : event.in_elements;
  call.message =
      sim::Bytes(std::max(0.0, static_cast<double>(elements)) * element_bytes(event.dtype));
  return call;
}

// The first two inputs that can be multiplied.
std::optional<GemmShape> shape_of(const std::vector<std::vector<std::int64_t>>& dims) {
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    const auto &a = dims[i], &b = dims[i + 1];
    if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) continue;
    return GemmShape{.batch = a.size() > 2 ? a[a.size() - 3] : 1,
                     .m = a[a.size() - 2],
                     .n = b.back(),
                     .k = a.back()};
  }
  return std::nullopt;
}

bool multiplies(const std::string& name) {
  constexpr const char* kOperators[] = {"aten::mm",      "aten::addmm",      "aten::bmm",
                                        "aten::baddbmm", "aten::_scaled_mm", "aten::_grouped_mm"};
  return std::ranges::find(kOperators, name) != std::end(kOperators);
}

// --- a predicted step ---

struct TermWork {
  const char* term;
  KernelClass kernels;
  sim::CollectiveKind collective = sim::CollectiveKind::AllReduce;
  const char* group = "";
};

// Of the components of a step (sim/schedule/passes.h) those that are no waiting for the host.
constexpr TermWork kTermWork[] = {
    {"forward_gemm", KernelClass::Gemm},
    {"forward_attention", KernelClass::Attention},
    {"forward_memory_bound", KernelClass::Elementwise},
    {"backward_gemm", KernelClass::Gemm},
    {"backward_attention", KernelClass::Attention},
    {"backward_memory_bound", KernelClass::Elementwise},
    {"recompute", KernelClass::Gemm},
    {"head_and_loss", KernelClass::Gemm},
    {"embedding", KernelClass::Embedding},
    {"contention", KernelClass::Gemm},
    {"gradient_copies", KernelClass::Elementwise},
    {"optimizer", KernelClass::Optimizer},
    {"offload_exposed", KernelClass::Copy},
    {"tensor_parallel_exposed", KernelClass::Collective, sim::CollectiveKind::AllReduce, "tp"},
    {"context_parallel_exposed", KernelClass::Collective, sim::CollectiveKind::SendRecv, "cp"},
    {"expert_parallel_exposed", KernelClass::Collective, sim::CollectiveKind::AllToAll, "ep"},
    {"stage_transfer_exposed", KernelClass::Collective, sim::CollectiveKind::SendRecv, "pp"},
    {"pipeline_bubble", KernelClass::Collective, sim::CollectiveKind::SendRecv, "pp"},
    {"weight_gather_exposed", KernelClass::Collective, sim::CollectiveKind::AllGather, "dp"},
    {"gradient_reduce_exposed", KernelClass::Collective, sim::CollectiveKind::ReduceScatter, "dp"},
    {"straggler", KernelClass::Collective, sim::CollectiveKind::AllReduce, "dp"},
};

// The kernels of one pass, one behind the other.
void add_pass(const EventText& event, TraceBuilder& builder) {
  std::int64_t start = *event.start;
  const std::int64_t end = start + *event.duration;
  for (const TermWork& work : kTermWork) {
    for (const auto& [term, seconds] : event.terms) {
      if (term != work.term || !(seconds > 0.0)) continue;
      const auto duration = static_cast<std::int64_t>(
          std::min(1e9 * seconds + 0.5, static_cast<double>(end - start)));
      DeviceEvent kernel{
          .start = start, .duration = duration, .name = builder.name(term, work.kernels)};
      if (work.kernels == KernelClass::Collective)
        kernel.detail = builder.collective(
            {.kind = work.collective,
             .group = std::string(work.group) + " of stage " + std::to_string(event.process),
             .description = work.group});
      builder.add(kernel);
      start += duration;
    }
  }
}

// --- the whole trace ---

class Events {
 public:
  explicit Events(const std::string& file) : file_(file), device_(file) {}

  void add(const EventText& event) {
    if (!event.is_whole()) return;
    if (predicted)
      add_predicted(event);
    else
      add_recorded(event);
  }
  std::vector<ProfileTrace> finish();

  bool predicted = false;
  std::optional<std::int64_t> rank, world_size;

 private:
  void add_predicted(const EventText& event);
  void add_recorded(const EventText& event);
  void add_kernel(const EventText& event);
  void add_host(const EventText& event);
  ProfileTrace recorded();

  std::string file_;
  TraceBuilder device_;
  std::map<std::int64_t, TraceBuilder> stages_;             // of a prediction
  std::unordered_map<std::int64_t, std::uint32_t> shapes_;  // of operators, by external id
  std::vector<TimeSpan> device_steps_;
};

void Events::add_predicted(const EventText& event) {
  if (event.thread != 0) return;
  TraceBuilder& stage = stages_.try_emplace(event.process, file_).first->second;
  add_pass(event, stage);
  std::vector<TimeSpan>& steps = stage.trace().steps;
  if (steps.empty()) steps.push_back({*event.start, *event.start});
  steps.front().end = std::max(steps.front().end, *event.start + *event.duration);
}

void Events::add_recorded(const EventText& event) {
  std::string category = event.category;
  std::ranges::transform(category, category.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (category == "kernel") return add_kernel(event);
  if (category == "gpu_memcpy" || category == "gpu_memset" || category == "memcpy" ||
      category == "memset")
    return device_.add({.start = *event.start,
                        .duration = *event.duration,
                        .name = device_.name(event.name, KernelClass::Copy)});
  const TimeSpan span{*event.start, *event.start + *event.duration};
  if (category == "gpu_user_annotation") {
    if (event.name.starts_with("ProfilerStep#")) device_steps_.push_back(span);
    return;
  }
  add_host(event);
}

// The index of an external id stands for its shape until all operators are read.
void Events::add_kernel(const EventText& event) {
  DeviceEvent kernel{
      .start = *event.start, .duration = *event.duration, .name = device_.name(event.name)};
  const KernelClass kernels = device_.trace().names[kernel.name].kernels;
  if (kernels == KernelClass::Collective) kernel.detail = device_.collective(call_of(event));
  if (kernels == KernelClass::Gemm && event.external_id && *event.external_id >= 0 &&
      *event.external_id < kNoDetail)
    kernel.detail = static_cast<std::uint32_t>(*event.external_id);
  device_.add(kernel);
}

void Events::add_host(const EventText& event) {
  const TimeSpan span{*event.start, *event.start + *event.duration};
  if (event.name.starts_with("ProfilerStep#"))
    device_.trace().steps.push_back(span);
  else if (event.name.find("DataLoader") != std::string::npos)
    device_.trace().loading.push_back(span);
  else if (event.external_id && multiplies(event.name))
    if (const std::optional<GemmShape> shape = shape_of(event.dims))
      shapes_[*event.external_id] = device_.shape(*shape);
}

ProfileTrace Events::recorded() {
  ProfileTrace& trace = device_.trace();
  for (DeviceEvent& event : trace.events) {
    if (trace.kernels(event) != KernelClass::Gemm || event.detail == kNoDetail) continue;
    const auto found = shapes_.find(event.detail);
    event.detail = found == shapes_.end() ? kNoDetail : found->second;
  }
  if (trace.steps.empty()) trace.steps = std::move(device_steps_);
  const auto whole = [](const std::optional<std::int64_t>& value) {
    const bool fits = value && *value >= 0 && *value <= std::numeric_limits<int>::max();
    return fits ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  trace.rank = whole(rank);
  trace.world_size = whole(world_size);
  return device_.finish("record with ProfilerActivity.CUDA");
}

std::vector<ProfileTrace> Events::finish() {
  std::vector<ProfileTrace> traces;
  if (!predicted) {
    traces.push_back(recorded());
    return traces;
  }
  if (stages_.empty()) throw Error(file_ + ": has no pass of a step");
  for (auto& [stage, builder] : stages_) {
    builder.trace().predicted = true;
    builder.trace().rank = static_cast<int>(stage);
    traces.push_back(builder.finish("a predicted step has passes"));
  }
  return traces;
}

// --- the reader of its JSON ---

// Where in the document a value stands.
enum class Place { Document, EventList, Event, Arguments, Terms, Dims, About, Distributed, Other };

class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(const std::string& file, Events& events) : file_(file), events_(events) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return number(static_cast<std::int64_t>(std::min(value, kMost)));
  }
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& text) override;
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool key(string_t& text) override {
    key_ = text;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    wrong_at = position;
    return false;
  }

  std::optional<std::size_t> wrong_at;
  bool has_events = false;

 private:
  Place place() const { return places_.empty() ? Place::Other : places_.back(); }
  void enter(Place place) {
    if (places_.size() >= kMostLevels)
      throw Error(file_ + ": objects and lists lie in one another more than " +
                  std::to_string(kMostLevels) + " deep");
    places_.push_back(place);
  }
  Place object_place() const;
  bool number(std::int64_t value);
  void time(std::string_view microseconds);
  void argument(std::int64_t value);

  std::string file_;
  Events& events_;
  std::vector<Place> places_;
  std::string key_;
  EventText event_;
  std::size_t dims_level_ = 0;
};

Place Reader::object_place() const {
  if (places_.empty()) return Place::Document;
  switch (place()) {
    case Place::EventList: return Place::Event;
    case Place::Event: return key_ == "args" ? Place::Arguments : Place::Other;
    case Place::Arguments: return key_ == "terms_s" ? Place::Terms : Place::Other;
    case Place::Document:
      if (key_ == "distributedInfo") return Place::Distributed;
      return key_ == "otherData" ? Place::About : Place::Other;
    default: return Place::Other;
  }
}

bool Reader::start_object(std::size_t) {
  const Place entered = object_place();
  if (entered == Place::Event) event_.clear();
  enter(entered);
  return true;
}

bool Reader::end_object() {
  if (place() == Place::Event) events_.add(event_);
  places_.pop_back();
  return true;
}

// A document may be the list of events itself.
bool Reader::start_array(std::size_t) {
  if (places_.empty() || (place() == Place::Document && key_ == "traceEvents")) {
    has_events = true;
    enter(Place::EventList);
  } else if (place() == Place::Arguments && (key_ == "Input Dims" || key_ == "Input dims")) {
    dims_level_ = places_.size();
    enter(Place::Dims);
  } else if (place() == Place::Dims) {
    if (places_.size() == dims_level_ + 1 && event_.dims.size() < kMostOperands)
      event_.dims.emplace_back();
    enter(Place::Dims);
  } else {
    enter(Place::Other);
  }
  return true;
}

bool Reader::end_array() {
  places_.pop_back();
  return true;
}

void Reader::time(std::string_view microseconds) {
  const std::optional<std::int64_t> time = nanoseconds_of(microseconds);
  if (key_ == "ts") event_.start = time;
  if (key_ == "dur") event_.duration = time;
}

void Reader::argument(std::int64_t value) {
  constexpr std::pair<const char*, std::int64_t EventText::*> kCounts[] = {
      {"In msg nelems", &EventText::in_elements},
      {"Out msg nelems", &EventText::out_elements},
      {"Group size", &EventText::ranks}};
  if (key_ == "External id" || key_ == "external id") event_.external_id = value;
  for (const auto& [name, member] : kCounts)
    if (key_ == name) event_.*member = value;
}

bool Reader::number(std::int64_t value) {
  switch (place()) {
    case Place::Event:
      if (key_ == "pid") event_.process = value;
      if (key_ == "tid") event_.thread = value;
      if (key_ == "ts" || key_ == "dur") time(std::to_string(value));
      break;
    case Place::Arguments: argument(value); break;
    case Place::Terms: event_.terms.emplace_back(key_, static_cast<double>(value)); break;
    case Place::Dims:
      if (!event_.dims.empty() && event_.dims.back().size() < kMostDims)
        event_.dims.back().push_back(value);
      break;
    case Place::Distributed:
      if (key_ == "rank") events_.rank = value;
      if (key_ == "world_size") events_.world_size = value;
      break;
    case Place::About: events_.predicted = events_.predicted || key_ == "step_time_s"; break;
    default: break;
  }
  return true;
}

bool Reader::number_float(number_float_t value, const string_t& text) {
  if (place() == Place::Event && (key_ == "ts" || key_ == "dur")) time(text);
  if (place() == Place::Terms) event_.terms.emplace_back(key_, value);
  if (place() == Place::About) events_.predicted = events_.predicted || key_ == "step_time_s";
  return true;
}

bool Reader::string(string_t& text) {
  constexpr std::pair<const char*, std::string EventText::*> kEvent[] = {
      {"ph", &EventText::phase}, {"cat", &EventText::category}, {"name", &EventText::name}};
  constexpr std::pair<const char*, std::string EventText::*> kArguments[] = {
      {"Collective name", &EventText::collective},
      {"dtype", &EventText::dtype},
      {"Process Group Name", &EventText::group},
      {"Process Group Description", &EventText::description}};
  if (place() == Place::Event) {
    if (key_ == "ts" || key_ == "dur") time(text);
    for (const auto& [name, member] : kEvent)
      if (key_ == name) event_.*member = text;
  } else if (place() == Place::Arguments) {
    for (const auto& [name, member] : kArguments)
      if (key_ == name) event_.*member = text;
    if (const auto value = nanoseconds_of(text); value && *value % 1000 == 0)
      argument(*value / 1000);
  }
  return true;
}

}  // namespace

std::vector<ProfileTrace> parse_trace(std::istream& stream, const std::string& file) {
  Events events(file);
  Reader reader(file, events);
  json::sax_parse(stream, &reader);
  if (reader.wrong_at)
    throw Error(file + ": no JSON from byte " + std::to_string(*reader.wrong_at) +
                " on; a trace is whole when the profiler's export has returned");
  if (!reader.has_events)
    throw Error(file +
                ": has no traceEvents; a trace of PyTorch's profiler, an SQLite export of "
                "Nsight Systems or what llmsim trace writes is expected");
  return events.finish();
}

}  // namespace llmsim::hwdb
