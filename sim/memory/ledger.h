// Bytes taken and given back, in order: what is held now and the most that ever was.
#pragma once

#include <algorithm>

#include "sim/base/quantity.h"

namespace llmsim::sim {

// A pass over a piece of work that ends with `net` more than it began with, and held up to `rise` more in between.
struct PassMemory {
  Bytes rise{};
  Bytes net{};
};

class Ledger {
 public:
  void take(Bytes size) {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  void give(Bytes size) { now_ -= size; }
  // For the time of one kernel.
  void pass(Bytes size) { peak_ = std::max(peak_, now_ + size); }
  void run(const PassMemory& pass) {
    peak_ = std::max(peak_, now_ + pass.rise);
    now_ += pass.net;
  }

  Bytes now() const { return now_; }
  Bytes peak() const { return peak_; }
  PassMemory total() const { return {.rise = peak_, .net = now_}; }

 private:
  Bytes now_{};
  Bytes peak_{};
};

}  // namespace llmsim::sim
