#include "calibrate/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

namespace fs = std::filesystem;

// --- lines ---

constexpr std::size_t kChunk = std::size_t{1} << 16;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kSniffed = std::size_t{1} << 18;
constexpr std::int64_t kHeaderLines = 20;  // among which the header of a table is looked for

// Lines of a stream, which end in '\n' or, as those of progress bars, in '\r'.  What is over 1 MiB
// of a line is left out.
class Lines {
 public:
  explicit Lines(std::istream& stream) : stream_(stream), chunk_(kChunk) {}

  bool next(std::string& line) {
    line.clear();
    while (true) {
      if (at_ == end_ && !fill()) break;
      const char* const begin = chunk_.data() + at_;
      const char* const stop =
          std::find_if(begin, begin + (end_ - at_), [](char c) { return c == '\n' || c == '\r'; });
      const auto count = static_cast<std::size_t>(stop - begin);
      line.append(begin, std::min(count, kLongestLine - std::min(kLongestLine, line.size())));
      at_ += count;
      if (at_ == end_) continue;
      ++at_;
      return true;
    }
    cut_off_ = !line.empty();
    return cut_off_;
  }

  bool cut_off() const { return cut_off_; }  // the last line had no end

 private:
  bool fill() {
    stream_.read(chunk_.data(), static_cast<std::streamsize>(chunk_.size()));
    at_ = 0;
    end_ = static_cast<std::size_t>(stream_.gcount());
    return end_ > 0;
  }

  std::istream& stream_;
  std::vector<char> chunk_;
  std::size_t at_ = 0, end_ = 0;
  bool cut_off_ = false;
};

// Without the escape sequences of a terminal: ESC [ ... letter.
void remove_colours(std::string& line) {
  if (line.find('\x1b') == std::string::npos) return;
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    if (i + 1 >= line.size() || line[i + 1] != '[') continue;
    i += 2;
    while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
  }
  line = std::move(plain);
}

// The digits between `before` and `after` at the start of a line; empty where it begins otherwise.
std::string_view label(std::string_view line, std::string_view before, std::string_view after) {
  if (!line.starts_with(before)) return {};
  const std::string_view rest = line.substr(before.size()),
                         digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  return rest.substr(digits.size()).starts_with(after) ? digits : std::string_view();
}

// "3" of "[rank3]: ...", "3: ..." and the like.
std::string rank_of(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  for (const auto& [before, after] :
       {std::pair{"[rank", "]"}, std::pair{"[Rank ", "]"}, std::pair{"[default", "]:"},
        std::pair{"[1,", "]<"}, std::pair{"", ": "}}) {
    if (const std::string_view rank = label(line, before, after); !rank.empty())
      return std::string(rank);
  }
  return {};
}

bool is_out_of_memory(std::string_view line) {
  if (line.find("ut of memory") == std::string_view::npos &&
      line.find("OutOfMemory") == std::string_view::npos &&
      line.find("RESOURCE_EXHAUSTED") == std::string_view::npos)
    return false;
  for (const char* error : {"CUDA out of memory", "HIP out of memory", "OutOfMemoryError",
                            "CUDA error: out of memory", "RESOURCE_EXHAUSTED"})
    if (line.find(error) != std::string_view::npos) return true;
  return false;
}

// --- steps ---

void raise(std::optional<sim::Bytes>& peak, const std::optional<Reading>& reading) {
  if (!reading || reading->value <= 0.0) return;
  peak = std::max(peak.value_or(sim::Bytes(0.0)), sim::Bytes(reading->value));
}

// Reads one file.
class LogReader {
 public:
  LogReader(TrainingLog& log, std::size_t file) : log_(log), file_(file) {}

  void read(std::string_view line, bool cut_off) {
    ++lines_;
    if (is_out_of_memory(line)) out_of_memory_ = true;
    for (const LogFormat& format : memory_formats()) {
      // Before the first step they are of how the program begins.
      const bool counts = format.within_steps || !streams_.empty();
      if (counts && line.find(format.sign) != std::string_view::npos)
        add_peaks(readings_of(format, line));
    }
    if (lines_ == 2 && columns_.empty() && log_.unread_table.empty())
      log_.unread_table = why_no_columns(table_format(), header_, line).value_or("");
    if (lines_ == 1) header_ = line;
    for (const LogFormat& format : log_formats()) {
      if (!cut_off || is_closed(line) || !has_steps(format)) read(format, line);
    }
  }

  void finish() {
    log_.out_of_memory = log_.out_of_memory || out_of_memory_;
    for (auto& [key, step] : open_) add_step(*key.first, key.second, step);
    open_.clear();
  }

 private:
  using Key = std::pair<const LogFormat*, std::string>;  // and the rank

  // A line without its end that is whole all the same.
  static bool is_closed(std::string_view line) {
    return line.ends_with('}') || line.ends_with('|');
  }

  // The format of tables with the most keys.
  static const LogFormat& table_format() {
    return *std::ranges::find(log_formats(), LogLayout::Columns, &LogFormat::layout);
  }

  bool has_steps(const LogFormat& format) const {
    return std::ranges::any_of(streams_, [&](const auto& s) { return s.first.first == &format; });
  }

  void read(const LogFormat& format, std::string_view line) {
    switch (format.layout) {
      case LogLayout::Block: read_block(format, line); return;
      case LogLayout::Columns: read_columns(format, line); return;
      case LogLayout::Line:
        if (line.find(format.sign) == std::string_view::npos) return;
        break;
      case LogLayout::Object:
      case LogLayout::Bar: break;
    }
    const Readings readings = readings_of(format, line);
    if (readings.has_time()) add_step(format, rank_of(line), readings);
  }

  void read_block(const LogFormat& format, std::string_view line) {
    const bool begins = line.find(format.sign) != std::string_view::npos;
    if (!begins && open_.empty()) return;
    const Key key{&format, rank_of(line)};
    const auto open = open_.find(key);
    if (!begins && open == open_.end()) return;
    if (begins && open != open_.end()) add_step(format, key.second, open->second);
    Readings& step = begins ? open_[key] = {} : open->second;
    const Readings readings = readings_of(format, line);
    for (const LogField& field : format.fields)
      if (readings[field.what] && !step[field.what]) step.set(field.what, readings[field.what]);
  }

  void read_columns(const LogFormat& format, std::string_view line) {
    if (table_ == &format) {
      const Readings readings = readings_of(columns_, line);
      if (readings.has_time()) add_step(format, {}, readings);
    } else if (table_ == nullptr && lines_ <= kHeaderLines) {
      columns_ = columns_of(format, line, log_.files[file_]);
      if (!columns_.empty()) table_ = &format;
    }
  }

  void add_peaks(const Readings& readings) {
    raise(log_.peak_allocated, readings[Logged::PeakAllocated]);
    raise(log_.peak_reserved, readings[Logged::PeakReserved]);
  }

  void add_step(const LogFormat& format, const std::string& rank, const Readings& readings) {
    add_peaks(readings);
    if (!readings.has_time()) return;
    out_of_memory_ = false;
    const auto [place, fresh] = streams_.try_emplace({&format, rank}, log_.streams.size());
    if (fresh) log_.streams.push_back({.format = &format, .rank = rank, .file = file_});
    std::vector<LoggedStep>& steps = log_.streams[place->second].steps;
    LoggedStep step{
        .number = {}, .start = steps.empty() ? 0 : steps.back().start, .readings = readings};
    const std::optional<Reading>& number = readings[Logged::Step];
    if (number && std::abs(number->value) < 1e15)
      step.number = static_cast<std::int64_t>(number->value);
    if (!steps.empty() && step.number && steps.back().number && *step.number < *steps.back().number)
      ++step.start;
    for (const Logged kept_elsewhere : {Logged::Step, Logged::PeakAllocated, Logged::PeakReserved})
      step.readings.set(kept_elsewhere, std::nullopt);
    step.readings.shrink();
    steps.push_back(std::move(step));
  }

  TrainingLog& log_;
  std::size_t file_;
  std::int64_t lines_ = 0;
  bool out_of_memory_ = false;
  std::map<Key, std::size_t> streams_;  // places in the log
  std::map<Key, Readings> open_;        // blocks that go on
  std::string header_;                  // the first line
  const LogFormat* table_ = nullptr;    // of the columns, where there are any
  std::vector<const LogField*> columns_;
};

void require_readable(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(path + ": no such file");
  if (fs::is_directory(status)) throw Error(path + ": is a folder; name the logs in it");
  if (!fs::is_regular_file(status) && !fs::is_fifo(status))
    throw Error(path + ": is a device; a file or a pipe is expected");
}

void refuse_compressed(const std::string& path, std::istream& stream) {
  constexpr int kGzip = 0x1f, kZstandard = 0x28, kXz = 0xfd;
  const int first = stream.peek();
  if (first == kGzip || first == kXz) throw Error(path + ": is compressed; unpack it first");
  if (first != kZstandard) return;
  std::array<char, 4> magic{};
  stream.read(magic.data(), magic.size());
  if (std::string_view(magic.data(), magic.size()) == "\x28\xb5\x2f\xfd")
    throw Error(path + ": is compressed; unpack it first");
  stream.clear();
  stream.seekg(0);
}

std::string looked_for() {
  std::string text;
  for (const LogFormat& format : log_formats())
    text += (text.empty() ? "" : ", ") + std::string(format.name) + " (" +
            std::string(format.sign) + ")";
  return text;
}

}  // namespace

void read_training_log(std::istream& stream, const std::string& file, TrainingLog& log) {
  log.files.push_back(file);
  LogReader reader(log, log.files.size() - 1);
  Lines lines(stream);
  for (std::string line; lines.next(line); ++log.lines) {
    remove_colours(line);
    reader.read(line, lines.cut_off());
  }
  reader.finish();
}

TrainingLog read_training_logs(const std::vector<std::string>& paths) {
  TrainingLog log;
  for (const std::string& path : paths) {
    require_readable(path);
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw Error(path + ": cannot be read");
    refuse_compressed(path, stream);
    read_training_log(stream, path, log);
    if (stream.bad()) throw Error(path + ": cannot be read");
  }
  if (log.streams.empty() && !log.out_of_memory)
    throw Error(sim::joined(paths, ", ") + ": no training step in " + std::to_string(log.lines) +
                " lines; " +
                (log.unread_table.empty() ? "looked for " + looked_for() : log.unread_table));
  return log;
}

std::optional<std::string> training_log_format(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string head(kSniffed, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max(std::streamsize{0}, file.gcount())));
  std::istringstream stream(head);
  TrainingLog log;
  read_training_log(stream, path, log);
  for (const LogStream& found : log.streams)
    if (found.format->layout != LogLayout::Object) return std::string(found.format->name);
  return std::nullopt;
}

}  // namespace llmsim::calibrate
