// The file that a measuring run writes: JSON lines, one record for each measurement, each flushed
// as soon as it exists.
//
// The first record is the header: what was measured on and with.  Every other record has a `key`
// that is unique in the file; a resumed run leaves out what is there.  A last line without its end
// is what a killed process leaves: it is dropped with a warning.  One process writes at a time: a
// second one is an Error that names the first.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace llmsim::runtime {

enum class Opening { Fresh, Resume };

class ResultFile {
 public:
  // Fresh: the file must not exist or be empty.  Resume: it may hold records of an earlier
  // run with an equal header (except for `started`).  Throws Error where the file exists
  // (Fresh), is being written, is damaged before its last line, is of another machine or
  // library, or cannot be written.
  ResultFile(std::string path, Opening opening, const nlohmann::json& header);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Seconds of measuring that the file has taken so far, in all runs: `elapsed_s` of a record is
  // those until it was written.
  double elapsed() const;

  bool contains(const std::string& key) const { return keys_.contains(key); }
  std::size_t size() const { return keys_.size(); }

  // Throws Error where the disk is full; what was written before stays whole.
  void append(const nlohmann::json& record);

 private:
  void lock();
  void release();
  void read_existing(const nlohmann::json& header);
  void write_line(const std::string& line);

  std::string path_;
  int file_ = -1;
  bool locked_ = false;
  std::set<std::string> keys_;
  double elapsed_before_ = 0.0;  // s, of the runs before this one
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A line on stderr that says how far a measuring run is: a bar with the time that is left on a
// terminal, else a plain line now and then.
class Progress {
 public:
  // `work` in seconds that the run is expected to take.
  explicit Progress(double work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `expected` seconds of the work are done; `what` comes next.
  void advance(double expected, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  double work_;
  double done_ = 0.0;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = Clock::now();
};

// "[#####.....]  52 %, 1:07 left"; elapsed and remaining work in the same unit, `seconds` those
// that passed.
std::string progress_text(double share, double seconds);

}  // namespace llmsim::runtime
