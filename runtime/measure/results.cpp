#include "runtime/measure/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

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

}  // namespace

ResultFile::ResultFile(std::string path, Opening opening, const json& header) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) throw Error("--output = " + path_ + ": cannot be written: " + std::strerror(errno));
  try {
    lock();
    const bool empty = lseek(file_, 0, SEEK_END) == 0;
    if (!empty && opening == Opening::Fresh)
      throw Error("--output = " + path_ + ": exists already; name another file, or continue it with --resume");
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
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) throw Error("--output = " + path_ + ": " + writer_of(path_) + " is writing it");
  locked_ = true;
  std::ofstream(writer_file(path_)) << this_process() << "\n";
}

void ResultFile::read_existing(const json& header) {
  const std::string text = content_of(path_);
  std::size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      std::fprintf(stderr, "llmsim-runtime: warning: %s: line %d was cut off by the end of an earlier run and is dropped\n",
                   path_.c_str(), line);
      if (ftruncate(file_, static_cast<off_t>(begin)) != 0) throw Error(path_ + ": cannot be shortened: " + std::strerror(errno));
      return;
    }
    const json record = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) throw Error(path_ + ":" + std::to_string(line) + ": no JSON record; is this a result file?");
    if (line == 1 && without_start(record) != without_start(header))
      throw Error(path_ + ": was measured on another machine, library or number of threads; name another --output");
    if (line > 1) keys_.insert(record.value("key", std::string()));
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
  if (ftruncate(file_, before) != 0) std::fprintf(stderr, "llmsim-runtime: warning: %s ends in half a line\n", path_.c_str());
  throw Error(path_ + ": cannot be written: " + reason + "; results so far are whole, --resume goes on from them");
}

void ResultFile::append(const json& record) {
  write_line(record.dump());
  keys_.insert(record.value("key", std::string()));
}

}  // namespace llmsim::runtime
