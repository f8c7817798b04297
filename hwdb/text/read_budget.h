// What reading one file may cost.
//
// A few bytes of a hostile file can stand for terabytes (an alias of aliases, "A=$A$A" in a
// script) or for more brackets than a stack has room for.  Readers that follow what a text stands
// for pay here for each piece.
//
// Private to hwdb and cli.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace llmsim::hwdb {

// Maps, lists and brackets that lie in one another, in every format.
inline constexpr int kMostLevels = 100;

// Where brackets of JSON that are outside strings lie in one another more than kMostLevels deep;
// none: nowhere.  Whether they match is the parser's business.
std::optional<std::size_t> too_deep_at(std::string_view json);

// "objects and lists lie in one another more than 100 deep"
std::string too_deep_text();

// A text that no reader of the format takes, though it may be well-formed.
class TooLarge : public Error {
 public:
  using Error::Error;
};

class ReadBudget {
 public:
  // Pays for a piece of `bytes` that the text stands for.  Throws TooLarge beyond 8 MiB in all; the
  // longest public launch file has 0.1.
  void spend(std::size_t bytes);

  // One more level, for as long as the result lives.  Throws TooLarge beyond kMostLevels.
  class Level {
   public:
    explicit Level(ReadBudget& budget) : budget_(budget) {}
    ~Level() { --budget_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ReadBudget& budget_;
  };
  [[nodiscard]] Level deeper();

 private:
  std::size_t spent_ = 0;
  int levels_ = 0;
};

}  // namespace llmsim::hwdb
