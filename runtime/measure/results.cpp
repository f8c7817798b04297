#include "runtime/measure/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

std::string writer_file(const std::string& path) { return path + ".writer"; }

// "process 4711 on host node3", as the process that holds the lock left it.
std::string writer_of(const std::string& path) {
  std::ifstream file(writer_file(path));
  std::string name;
  return std::getline(file, name) ? name : "another process";
}

std::string this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return "process " + std::to_string(getpid()) + " on host " + host;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

json without_start(json header) {
  header.erase("started");
  return header;
}

constexpr int kWidth = 24;
constexpr double kLeastShare = 0.02;  // before it an estimate would be noise
constexpr std::chrono::seconds kBetweenLines{15};

}  // namespace

ResultFile::ResultFile(std::string path, Opening opening, const json& header)
    : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw Error("--output = " + path_ + ": cannot be written: " + std::strerror(errno));
  try {
    lock();
    const bool empty = lseek(file_, 0, SEEK_END) == 0;
    if (!empty && opening == Opening::Fresh)
      throw Error("--output = " + path_ +
                  ": exists already; name another file, or continue it with --resume");
    if (!empty) read_existing(header);
    if (lseek(file_, 0, SEEK_END) == 0) write_line(header.dump());
  } catch (...) {
    release();
    throw;
  }
}

ResultFile::~ResultFile() { release(); }

void ResultFile::release() {
  if (locked_) std::remove(writer_file(path_).c_str());
  close(file_);
}

void ResultFile::lock() {
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    throw Error("--output = " + path_ + ": " + writer_of(path_) + " is writing it");
  locked_ = true;
  std::ofstream(writer_file(path_)) << this_process() << "\n";
}

void ResultFile::read_existing(const json& header) {
  const std::string text = content_of(path_);
  std::size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      std::fprintf(stderr,
                   "llmsim-runtime: warning: %s: line %d was cut off by the end of an earlier run "
                   "and is dropped\n",
                   path_.c_str(), line);
      if (ftruncate(file_, static_cast<off_t>(begin)) != 0)
        throw Error(path_ + ": cannot be shortened: " + std::strerror(errno));
      return;
    }
    const json record = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                    /*allow_exceptions=*/false);
    if (!record.is_object())
      throw Error(path_ + ":" + std::to_string(line) + ": no JSON record; is this a result file?");
    if (line == 1 && without_start(record) != without_start(header))
      throw Error(
          path_ +
          ": was measured on another machine, library or number of threads; name another --output");
    if (line > 1) keys_.insert(record.value("key", std::string()));
    if (record.contains("elapsed_s") && record["elapsed_s"].is_number())
      elapsed_before_ = std::max(elapsed_before_, record["elapsed_s"].get<double>());
    begin = end + 1;
  }
}

// One write() to the end of the file; what did not fit whole is taken back.
void ResultFile::write_line(const std::string& line) {
  const std::string text = line + "\n";
  const off_t before = lseek(file_, 0, SEEK_END);
  const ssize_t written = write(file_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) && fdatasync(file_) == 0) return;
  const std::string reason = written < 0 ? std::strerror(errno) : "no space left on device";
  if (ftruncate(file_, before) != 0)
    std::fprintf(stderr, "llmsim-runtime: warning: %s ends in half a line\n", path_.c_str());
  throw Error(path_ + ": cannot be written: " + reason +
              "; results so far are whole, --resume goes on from them");
}

double ResultFile::elapsed() const {
  const auto now = std::chrono::steady_clock::now() - start_;
  return elapsed_before_ + std::chrono::duration<double>(now).count();
}

void ResultFile::append(const json& record) {
  json written = record;
  written["elapsed_s"] = std::round(1e3 * elapsed()) / 1e3;
  write_line(written.dump());
  keys_.insert(record.value("key", std::string()));
}

std::string progress_text(double share, double seconds) {
  const double done = std::clamp(share, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(done * kWidth));
  std::string text =
      fmt::format("[{}{}]", std::string(filled, '#'), std::string(kWidth - filled, '.'));
  text += fmt::format(" {:3.0f} %", 100.0 * done);
  if (done < kLeastShare) return text;
  const int left = static_cast<int>(std::lround(seconds * (1.0 - done) / done));
  return text + fmt::format(", {}:{:02} left", left / 60, left % 60);
}

Progress::Progress(double work)
    : work_(std::max(work, 1e-9)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(double expected, const std::string& what) {
  done_ += expected;
  const Clock::time_point now = Clock::now();
  const std::string text =
      progress_text(done_ / work_, std::chrono::duration<double>(now - start_).count());
  if (terminal_) {
    std::fprintf(stderr, "\r%s  %.48s\x1b[K", text.c_str(), what.c_str());
  } else if (now - last_line_ >= kBetweenLines) {
    std::fprintf(stderr, "%s  %s\n", text.c_str(), what.c_str());
    last_line_ = now;
  }
}

}  // namespace llmsim::runtime
