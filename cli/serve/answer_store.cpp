#include "cli/serve/answer_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "cli/output.h"
#include "sim/base/error.h"

namespace llmsim::cli::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 128;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr std::size_t kDigits = 32;

std::string random_id() {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::random_device device;
  std::string id;
  while (id.size() < kDigits) id += kHex[device() % kHex.size()];
  return id;
}

bool is_id(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

AnswerStore::AnswerStore(std::optional<fs::path> folder) : folder_(std::move(folder)) {}

std::string AnswerStore::put(StoredAnswer answer) {
  std::string id = random_id();
  if (folder_) write_file(answer.body, (*folder_ / (id + "-" + answer.name)).string());
  const std::lock_guard lock(mutex_);
  bytes_ += answer.body.size();
  entries_.emplace_back(id, std::make_shared<const StoredAnswer>(std::move(answer)));
  while (entries_.size() > kMostEntries || (bytes_ > kMostBytes && entries_.size() > 1)) {
    bytes_ -= entries_.front().second->body.size();
    entries_.pop_front();
  }
  return id;
}

std::shared_ptr<const StoredAnswer> AnswerStore::find(const std::string& id) const {
  if (!is_id(id)) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, id, &Entry::first);
    if (found != entries_.end()) return found->second;
  }
  return folder_ ? read(id) : nullptr;
}

std::shared_ptr<const StoredAnswer> AnswerStore::read(const std::string& id) const {
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(*folder_, error)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(id + "-") || !file.is_regular_file(error)) continue;
    std::ifstream in(file.path(), std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return std::make_shared<const StoredAnswer>(
        StoredAnswer{.name = name.substr(kDigits + 1), .body = text.str()});
  }
  return nullptr;
}

QuestionFolder::QuestionFolder(const fs::path& parent) {
  std::string pattern = (parent / "llmsim-question-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw Error(pattern + ": cannot be made: " + std::strerror(errno));
  path_ = pattern;
}

QuestionFolder::~QuestionFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace llmsim::cli::serve
