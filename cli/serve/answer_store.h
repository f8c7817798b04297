// Answers by a name that nobody guesses, so that a page can show, open and download them.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace llmsim::cli::serve {

struct StoredAnswer {
  std::string name;  // of its file: "plan.html"
  std::string body;
};

// The last ones in memory: at most 128, of at most 256 MiB together.  With a folder all of them are
// files there, whichever server wrote them.  Any thread.
class AnswerStore {
 public:
  explicit AnswerStore(std::optional<std::filesystem::path> folder = {});

  // The name under which it is found: 32 random hexadecimal digits.
  std::string put(StoredAnswer answer);
  std::shared_ptr<const StoredAnswer> find(const std::string& id) const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const StoredAnswer>>;

  std::shared_ptr<const StoredAnswer> read(const std::string& id) const;

  const std::optional<std::filesystem::path> folder_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
};

// Where a question has its files while it is answered: a folder that only this user reads, below
// `parent`, which goes away with this object.  Throws Error where it cannot be made.
class QuestionFolder {
 public:
  explicit QuestionFolder(const std::filesystem::path& parent);
  QuestionFolder(const QuestionFolder&) = delete;
  QuestionFolder& operator=(const QuestionFolder&) = delete;
  ~QuestionFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace llmsim::cli::serve
