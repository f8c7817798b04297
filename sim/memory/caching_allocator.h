// PyTorch's caching allocator, as one stream sees it: which blocks requests get, and so how much is reserved beside what is in
// use.
//
// Sizes are rounded up to 512 bytes.  Requests of at most 1 MiB share segments of 2 MiB; larger ones below 10 MiB segments of
// 20 MiB; others get a segment of their own, rounded up to 2 MiB.  A request takes the smallest free block that holds it, of
// those the one of the lowest address, and gives back what is left where that is worth a block: 512 bytes among small ones,
// more than 1 MiB among large ones.  What is not given back counts as allocated, as in max_memory_allocated().  A block that is
// freed joins free neighbours of its segment; segments stay reserved.
//
// With expandable segments each of the two kinds of request has one segment that grows at its end by 2 or 20 MiB at a time;
// blocks of any size are divided to 512 bytes, and the end is taken only where no gap is large enough.
//
// Without a limit of memory: nothing is released under pressure.  New segments lie above older ones.
// Source: PyTorch c10/cuda/CUDACachingAllocator.cpp (round_size, get_allocation_size, get_free_block, should_split,
// try_allocate_expandable_block, free_block).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "sim/base/quantity.h"

namespace llmsim::sim {

class CachingAllocator {
 public:
  using Block = std::size_t;

  explicit CachingAllocator(bool expandable_segments = false) : expandable_(expandable_segments) {}

  // Requires size >= 0; of 0 bytes there is a block too.
  Block take(Bytes size);
  // Requires a block that is in use.
  void give(Block block);

  Bytes allocated() const { return Bytes(static_cast<double>(allocated_)); }
  Bytes reserved() const { return Bytes(static_cast<double>(reserved_)); }
  Bytes allocated_peak() const { return Bytes(static_cast<double>(allocated_peak_)); }
  Bytes reserved_peak() const { return Bytes(static_cast<double>(reserved_peak_)); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Extent {
    std::int64_t address = 0;
    std::int64_t size = 0;
    std::size_t before = kNone;  // neighbours in its segment
    std::size_t after = kNone;
    bool small = false;
    bool free = false;
  };

  // Free blocks of a kind by size, then by address.
  struct Fit {
    std::int64_t size, address;
    std::size_t extent;
    auto operator<=>(const Fit&) const = default;
  };
  using Pool = std::set<Fit>;

  std::size_t best_fit(std::int64_t size, bool small) const;
  std::size_t new_segment(std::int64_t size, bool small);
  std::size_t grow(std::int64_t size, bool small);
  void split(std::size_t extent, std::int64_t size);
  void merge(std::size_t extent, std::size_t next);
  std::size_t add(const Extent& extent);
  void set_free(std::size_t extent, bool free);
  void reserve(std::int64_t size);
  Pool& pool(bool small) { return pools_[small ? 0 : 1]; }

  bool expandable_;
  std::vector<Extent> extents_;
  std::vector<std::size_t> unused_;  // places in extents_ of blocks that were merged away
  std::array<Pool, 2> pools_;
  std::array<std::size_t, 2> ends_{kNone, kNone};  // last blocks of the segments that grow
  std::int64_t top_ = 0;                           // above all segments
  std::int64_t allocated_ = 0, reserved_ = 0, allocated_peak_ = 0, reserved_peak_ = 0;
};

}  // namespace llmsim::sim
