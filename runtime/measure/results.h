// The file that a measuring run writes: JSON lines, one record for each measurement, each flushed as soon as it exists.
//
// The first record is the header: what was measured on and with.  Every other record has a `key` that is unique in the file; a
// resumed run leaves out what is there.  A last line without its end is what a killed process leaves: it is dropped with a
// warning.  One process writes at a time: a second one is an Error that names the first.
#pragma once

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace llmsim::runtime {

enum class Opening { Fresh, Resume };

class ResultFile {
 public:
  // Fresh: the file must not exist or be empty.  Resume: it may hold records of an earlier run with an equal header (apart from
  // `started`).  Throws Error where the file exists (Fresh), is being written, is damaged before its last line, is of another
  // machine or library, or cannot be written.
  ResultFile(std::string path, Opening opening, const nlohmann::json& header);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

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
};

}  // namespace llmsim::runtime
