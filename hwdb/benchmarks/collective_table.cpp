#include "hwdb/benchmarks/collective_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using sim::CollectiveKind;

constexpr int kMostTableRanks = 1 << 20;
constexpr ValueRange kMessageSize{"size", 0.0, 17.6e12, "bytes"};
constexpr ValueRange kCollectiveTime{"time", 0.01, 1e9, "us"};
constexpr ValueRange kAlgbw{"algbw", 0.0, 1e5, "GB/s"};
// Rates are printed with two decimals: from here on they are checked against size and time.
constexpr double kPreciseRate = 1.0;
constexpr double kAlgbwTolerance = 0.1;

struct NamedCollective {
  std::string_view name;
  std::optional<CollectiveKind> kind;  // none: no part of the model
};

// Longer names before those that they hold.
constexpr NamedCollective kCollectives[] = {
    {"all_reduce", CollectiveKind::AllReduce},
    {"allreduce", CollectiveKind::AllReduce},
    {"all_gather", CollectiveKind::AllGather},
    {"allgather", CollectiveKind::AllGather},
    {"reduce_scatter", CollectiveKind::ReduceScatter},
    {"reducescatter", CollectiveKind::ReduceScatter},
    {"alltoallv", std::nullopt},
    {"all_to_all", CollectiveKind::AllToAll},
    {"alltoall", CollectiveKind::AllToAll},
    {"broadcast", CollectiveKind::Broadcast},
    {"sendrecv", CollectiveKind::SendRecv},
    {"hypercube", std::nullopt},
    {"gather", std::nullopt},
    {"scatter", std::nullopt},
    {"reduce", std::nullopt},
};

// "all_reduce_perf", or a part of the name of a file.
const NamedCollective* collective_in(std::string_view text) {
  for (const NamedCollective& known : kCollectives)
    if (text.find(known.name) != text.npos) return &known;
  return nullptr;
}

// The program that a line names, "all_reduce_perf" or "all_reduce_perf_mpi".
const NamedCollective* program_in(std::string_view line) {
  const std::size_t end = line.find("_perf");
  if (end == line.npos) return nullptr;
  const std::size_t begin = line.substr(0, end).find_last_of(" /\t\"=") + 1;  // npos + 1 = 0
  return collective_in(line.substr(begin, end - begin));
}

struct MessageType {
  std::string_view name;
  sim::DType dtype;
};
constexpr MessageType kMessageTypes[] = {
    {"half", sim::DType::Fp16},   {"float16", sim::DType::Fp16}, {"bfloat16", sim::DType::Bf16},
    {"f8e4m3", sim::DType::Fp8},  {"f8e5m2", sim::DType::Fp8},   {"fp8_e4m3", sim::DType::Fp8},
    {"fp8_e5m2", sim::DType::Fp8}};

sim::DType message_type(std::string_view name) {
  for (const MessageType& known : kMessageTypes)
    if (name == known.name) return known.dtype;
  return sim::DType::Fp32;
}

// "2.28.3" for 22803, before 2.9 "2.8.3" for 2803 (NVIDIA/nccl src/nccl.h.in).
std::string library_version(double code) {
  const auto whole = static_cast<int>(code);
  const int major = whole >= 10'000 ? 10'000 : 1'000;
  return fmt::format("{}.{}.{}", whole / major, whole % major / 100, whole % 100);
}

// Who took part in a table.
struct TableRanks {
  int ranks = 0;
  std::set<std::string, std::less<>> hosts;
  int groups = 1;
};

// One row of a table.
struct MessageRow {
  double bytes = 0.0;
  std::string_view type, redop, root;
  double us = 0.0, algbw = 0.0, busbw = 0.0;
  double wrong = 0.0;
  bool in_place_checked = true, out_of_place_checked = true;
};

// None where it can be more than one.
std::optional<CollectiveKind> collective_by_form(const MessageRow& row, int ranks) {
  const bool adds = row.redop != "none" && !row.redop.empty();
  if (row.root != "-1" && !row.root.empty()) return std::nullopt;
  const double share = (ranks - 1.0) / ranks, factor = row.busbw / row.algbw;
  const auto is_factor = [&](double expected) {
    return row.algbw >= kPreciseRate && std::abs(factor / expected - 1.0) < 0.02;
  };
  if (ranks < 2) return std::nullopt;
  if (adds && is_factor(2.0 * share)) return CollectiveKind::AllReduce;
  if (adds && is_factor(share)) return CollectiveKind::ReduceScatter;
  if (adds || !is_factor(share)) return std::nullopt;
  if (row.out_of_place_checked && !row.in_place_checked) return CollectiveKind::AllToAll;
  if (row.out_of_place_checked && row.in_place_checked) return CollectiveKind::AllGather;
  return std::nullopt;
}

// The tables of a file, row by row.
class TableReader {
 public:
  TableReader(const BenchmarkText& text, const BenchmarkDefaults& defaults, BenchmarkFile& result)
      : text_(text), defaults_(defaults), result_(result) {}

  void begin_table() {
    if (in_table_) named_ = nullptr;
    in_table_ = false;
    left_out_ = false;
    setup_ = {};
  }
  void name(const NamedCollective* named) {
    if (!named) return;
    named_ = named;
    in_table_ = false;  // what follows is another table
  }
  void add_rank(std::string_view host, int group) {
    ++setup_.ranks;
    setup_.hosts.emplace(host);
    setup_.groups = std::max(setup_.groups, group + 1);
  }
  // Processes that each name one of their devices.
  void multiply_ranks(std::int64_t devices) {
    setup_.ranks = static_cast<int>(
        std::min<std::int64_t>(setup_.ranks * devices, std::int64_t{kMostTableRanks} + 1));
  }

  void add(std::size_t line, const MessageRow& row) {
    in_table_ = true;
    check(line, row);
    if (left_out_ || row.bytes <= 0.0) return;
    if (const auto why = why_not()) return leave_out(line, *why);
    const NamedCollective* const named = named_ ? named_ : collective_in(file_name());
    if (named && !named->kind)
      return leave_out(line, std::string(named->name) + " is no collective of the model");
    if (row.wrong > 0.0) return leave_out(line, "wrong results");
    const auto kind = named                  ? named->kind
                      : defaults_.collective ? defaults_.collective
                                             : collective_by_form(row, setup_.ranks);
    if (!kind)
      text_.refuse(line,
                   "the table does not say which collective it is of; pass --collective, "
                   "for example --collective all-reduce");
    const int nodes = static_cast<int>(setup_.hosts.size());
    result_.collectives.push_back({.kind = *kind,
                                   .dtype = message_type(row.type),
                                   .message = sim::Bytes(row.bytes),
                                   .ranks = setup_.ranks,
                                   .ranks_per_node = setup_.ranks / nodes,
                                   .nodes = nodes,
                                   .median = sim::Seconds(row.us * 1e-6)});
  }

 private:
  void check(std::size_t line, const MessageRow& row) const {
    if (setup_.ranks < 1)
      text_.refuse(line,
                   "the lines '# Rank ...' that say who took part are missing above this table; "
                   "the whole output is expected");
    if (setup_.ranks > kMostTableRanks) text_.refuse(line, "more than a million ranks");
    if (row.algbw < kPreciseRate) return;
    const double rate = row.bytes / row.us * 1e-3;  // GB/s
    if (std::abs(rate / row.algbw - 1.0) > kAlgbwTolerance)
      text_.refuse(line, fmt::format("{:g} bytes in {:g} us are {:.4g} GB/s, but algbw = {:g}",
                                     row.bytes, row.us, rate, row.algbw));
  }

  std::optional<std::string> why_not() const {
    if (setup_.ranks < 2) return "one rank alone sends nothing";
    if (setup_.groups > 1)
      return std::to_string(setup_.groups) + " groups of ranks ran at the same time";
    if (setup_.ranks % static_cast<int>(setup_.hosts.size()) != 0)
      return "its nodes have different numbers of ranks";
    return std::nullopt;
  }

  // Once for each table.
  void leave_out(std::size_t line, const std::string& why) {
    left_out_ = true;
    result_.left_out.push_back("the table of line " + std::to_string(line + 1) + ": " + why);
  }

  std::string_view file_name() const {
    const std::string_view path = text_.file();
    return path.substr(path.find_last_of("/\\") + 1);  // npos + 1 = 0
  }

  const BenchmarkText& text_;
  const BenchmarkDefaults& defaults_;
  BenchmarkFile& result_;
  const NamedCollective* named_ = nullptr;
  TableRanks setup_;
  bool in_table_ = false;
  bool left_out_ = false;
};

// --- the text ---

std::size_t place_of(const TextWords& words, std::string_view word) {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

// "#  Rank  0 Group  0 Pid  1 on host device  0 [0x1b] NVIDIA H100": the older form has no group.
void read_rank(const TextWords& words, TableReader& table, BenchmarkFile& result) {
  const std::size_t on = place_of(words, "on"), group = place_of(words, "Group");
  if (on + 1 >= words.size()) return;
  const double number = group + 1 < words.size() ? number_in(words[group + 1]).value_or(0.0) : 0.0;
  table.add_rank(words[on + 1], static_cast<int>(std::clamp(number, 0.0, 1.0 * kMostTableRanks)));
  if (!result.device_name.empty()) return;
  const auto bus = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(on), words.end(),
                                [](std::string_view word) { return word.ends_with(']'); });
  for (auto word = bus; word != words.end() && ++word != words.end();)
    result.device_name += (result.device_name.empty() ? "" : " ") + shown_text(*word);
}

// "# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803"
void read_version(const TextWords& words, BenchmarkFile& result) {
  constexpr std::string_view kLibrary = "nccl-library=";
  const std::size_t version = place_of(words, "version");
  if (version + 1 < words.size()) result.program = "nccl-tests " + shown_text(words[version + 1]);
  for (const std::string_view word : words) {
    if (!word.starts_with(kLibrary)) continue;
    const double code = number_in(word.substr(kLibrary.size())).value_or(0.0);
    if (code >= 1'000.0 && code < 1e6) result.program += ", NCCL " + library_version(code);
  }
}

// The columns of a table by their places from its head; those of time again in place.
struct TableColumns {
  TextWords names{};
  std::size_t time = 0;  // of out of place

  bool known() const { return !names.empty(); }
};

// Older programs leave redop and root blank where they mean nothing: what stands from the time on
// is counted from the end of the line.
struct RowWords {
  const TextWords& words;
  const TableColumns& columns;

  std::size_t missing() const {
    const std::size_t expected = columns.names.size() + (has_date() ? 1 : 0);
    return expected > words.size() ? expected - words.size() : 0;
  }
  bool has_date() const { return columns.names.back() == "timestamp"; }
  std::string_view before_time(std::string_view name) const {
    const std::size_t at = place_of(columns.names, name);
    return missing() == 0 && at < columns.time ? words[at] : std::string_view();
  }
  std::string_view from_time(std::size_t offset) const {
    const std::size_t at = columns.time + offset - missing();
    return at < words.size() ? words[at] : std::string_view();
  }
};

TableColumns table_columns(const BenchmarkText& text, std::size_t line, TextWords names) {
  TableColumns columns{std::move(names), 0};
  columns.time = place_of(columns.names, "time");
  if (columns.time == columns.names.size() || columns.time < 3)
    text.refuse(line, place_of(columns.names, "cputime") < columns.names.size()
                          ? "times are those of the host (option -C); run without it"
                          : "the columns size, count, type ... time, algbw, busbw are expected");
  return columns;
}

void read_row(const BenchmarkText& text, std::size_t line, const TextWords& words,
              const TableColumns& columns, TableReader& table) {
  const RowWords row{words, columns};
  // TableColumns of one way, out of place or in place.
  const std::size_t second =
      static_cast<std::size_t>(
          std::find(columns.names.begin() + static_cast<std::ptrdiff_t>(columns.time) + 1,
                    columns.names.end(), "time") -
          columns.names.begin()) -
      columns.time;
  if (row.missing() > 2 || words.size() > columns.names.size() + 1)
    text.refuse(line,
                fmt::format("{} values under {} columns", words.size(), columns.names.size()));
  const std::size_t way = row.from_time(0) == "N/A" ? second : 0;
  const auto wrong_of = [&](std::size_t offset) { return row.from_time(offset + 3); };
  table.add(line, {.bytes = value_of(text, line, words[0], kMessageSize),
                   .type = row.before_time("type"),
                   .redop = row.before_time("redop"),
                   .root = row.before_time("root"),
                   .us = value_of(text, line, row.from_time(way), kCollectiveTime),
                   .algbw = value_of(text, line, row.from_time(way + 1), kAlgbw),
                   .busbw = value_of(text, line, row.from_time(way + 2), kAlgbw),
                   .wrong = number_in(wrong_of(way)).value_or(0.0),
                   .in_place_checked = number_in(wrong_of(second)).has_value(),
                   .out_of_place_checked = number_in(wrong_of(0)).has_value()});
}

bool is_row(const TextWords& words) {
  return words.size() >= 6 && number_in(words[0]) && number_in(words[1]);
}

bool is_head(const TextWords& words) {
  return words.size() > 6 && words[0] == "#" && words[1] == "size" && words[2] == "count";
}

// --- JSON ---

MessageRow row_of(ObjectReader& record, const BenchmarkText& text, const std::string& root) {
  std::optional<ObjectReader> way = record.object("out_of_place");
  if (!way) way = record.object("in_place");
  if (!way) record.refuse("out_of_place", "times of the row are expected");
  if (way->any("cpu_time"))
    way->refuse("cpu_time", "times of the device are expected (without -C)");
  const auto value = [&](const char* key, const ValueRange& range) {
    const auto number = way->number(key, range.least);
    if (!number || *number > range.most)
      way->refuse(key,
                  fmt::format("{:g} to {:g} {} is expected", range.least, range.most, range.unit));
    return *number;
  };
  const auto is_checked = [&](const char* key) {
    std::optional<ObjectReader> one = record.object(key);
    return one && one->any("nwrong") != nullptr;
  };
  return {.bytes = checked(text, 0, record.number("size", 0.0).value_or(0.0), kMessageSize),
          .type = {},
          .redop = {},
          .root = root,
          .us = value("time", kCollectiveTime),
          .algbw = value("alg_bw", kAlgbw),
          .busbw = value("bus_bw", kAlgbw),
          .wrong = way->any("nwrong") ? way->number("nwrong", 0.0).value_or(0.0) : 0.0,
          .in_place_checked = is_checked("in_place"),
          .out_of_place_checked = is_checked("out_of_place")};
}

void read_devices(ObjectReader& config, TableReader& table, BenchmarkFile& result) {
  for (const nlohmann::json& device : config.list("devices")) {
    ObjectReader record(device, result.file, "devices");
    const auto group = record.integer("group", 0, kMostTableRanks);
    table.add_rank(record.text("hostname").value_or(""), static_cast<int>(group.value_or(0)));
    if (result.device_name.empty())
      result.device_name = shown_text(record.text("device_info").value_or(""));
  }
  // Each process names its first device alone.
  const std::int64_t devices = config.integer("nthreads", 1, 1 << 10).value_or(1) *
                               config.integer("ngpus", 1, 1 << 10).value_or(1);
  table.multiply_ranks(devices);
}

}  // namespace

bool is_collective_table(const BenchmarkText& text) {
  const TextWords& lines = text.lines();
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find("# ") != line.npos && is_head(words_of(line));
  });
}

void read_collective_table(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                           BenchmarkFile& result) {
  TableReader table(text, defaults, result);
  TableColumns columns;
  result.program = "nccl-tests";
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const std::string_view line = text.lines()[i];
    const TextWords words = words_of(line);
    if (columns.known() && is_row(words)) {
      read_row(text, i, words, columns, table);
    } else if (is_head(words)) {
      columns = table_columns(text, i, TextWords(words.begin() + 1, words.end()));
    } else if (words.size() > 3 && words[0] == "#" && words[1] == "Rank") {
      read_rank(words, table, result);
    } else if (line.find("tests version") != line.npos) {
      table.begin_table();
      read_version(words, result);
    } else if (line.find("# nThread") != line.npos) {
      table.begin_table();
      columns = {};
    } else if (line.find("concluded") == line.npos) {
      table.name(program_in(line));
    }
  }
}

bool is_collective_json(const BenchmarkText& text) {
  const std::string_view begin = trimmed(text.text()).substr(0, 200);
  return begin.starts_with('{') && begin.find("\"version\"") != begin.npos &&
         text.text().find("\"alg_bw\"") != std::string::npos;
}

void read_collective_json(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                          BenchmarkFile& result) {
  const nlohmann::json document = parse_json(text.text(), text.file());
  ObjectReader whole(document, text.file());
  TableReader table(text, defaults, result);
  const std::vector<std::string> command = whole.texts("args");
  if (!command.empty()) table.name(program_in(command.front()));
  result.program = "nccl-tests";
  if (const auto version = whole.integer("nccl_version", 1'000, 999'999))
    result.program += ", NCCL " + library_version(static_cast<double>(*version));
  std::optional<ObjectReader> config = whole.object("config");
  if (!config) whole.refuse("config", "the object that says who took part is expected");
  read_devices(*config, table, result);
  for (const nlohmann::json& row : whole.list("results")) {
    ObjectReader record(row, text.file(), "results");
    const std::string root = record.text("root").value_or(""),
                      redop = record.text("redop").value_or(""),
                      type = record.text("type").value_or("");
    MessageRow one = row_of(record, text, root);
    one.root = trimmed(root);
    one.redop = redop;
    one.type = type;
    table.add(0, one);
  }
}

}  // namespace llmsim::hwdb
