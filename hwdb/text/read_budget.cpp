#include "hwdb/text/read_budget.h"

#include <string>

namespace llmsim::hwdb {
namespace {

constexpr std::size_t kMostMiBStoodFor = 8;
constexpr std::size_t kOfAnyPiece = 32;  // what holds even an empty one

}  // namespace

void ReadBudget::spend(std::size_t bytes) {
  spent_ += bytes + kOfAnyPiece;
  if (spent_ > kMostMiBStoodFor << 20)
    throw TooLarge("stands for more than " + std::to_string(kMostMiBStoodFor) +
                   " MiB of text, when its variables, references and aliases are followed");
}

ReadBudget::Level ReadBudget::deeper() {
  if (++levels_ > kMostLevels) {
    --levels_;
    throw TooLarge("brackets, maps or lists lie in one another more than " +
                   std::to_string(kMostLevels) + " deep");
  }
  return Level(*this);
}

}  // namespace llmsim::hwdb
