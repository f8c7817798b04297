#include "sim/memory/caching_allocator.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace llmsim::sim {
namespace {

constexpr std::int64_t kMebi = std::int64_t{1} << 20;
constexpr std::int64_t kSmallestBlock = 512;
constexpr std::int64_t kSmallRequest = kMebi;
constexpr std::int64_t kSmallSegment = 2 * kMebi;
constexpr std::int64_t kLargeSegment = 20 * kMebi;
constexpr std::int64_t kOwnSegment = 10 * kMebi;
constexpr std::int64_t kSegmentUnit = 2 * kMebi;
// Between the growing segments of small and large requests, which never meet.
constexpr std::int64_t kAddressSpace = std::int64_t{1} << 50;

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

std::int64_t block_size(Bytes size) {
  return std::max(kSmallestBlock, rounded_up(static_cast<std::int64_t>(std::ceil(size.value())), kSmallestBlock));
}

std::int64_t segment_size(std::int64_t size, bool small) {
  if (small) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : rounded_up(size, kSegmentUnit);
}

}  // namespace

CachingAllocator::Block CachingAllocator::take(Bytes size) {
  const std::int64_t wanted = block_size(size);
  const bool small = wanted <= kSmallRequest;
  std::size_t extent = best_fit(wanted, small);
  if (extent == kNone) extent = expandable_ ? grow(wanted, small) : new_segment(wanted, small);
  set_free(extent, false);
  const std::int64_t left = extents_[extent].size - wanted;
  if (small || expandable_ ? left >= kSmallestBlock : left > kSmallRequest) split(extent, wanted);
  allocated_ += extents_[extent].size;
  allocated_peak_ = std::max(allocated_peak_, allocated_);
  return extent;
}

void CachingAllocator::give(Block block) {
  assert(block < extents_.size() && !extents_[block].free);
  allocated_ -= extents_[block].size;
  std::size_t extent = block;
  const std::size_t before = extents_[extent].before, after = extents_[extent].after;
  if (after != kNone && extents_[after].free) merge(extent, after);
  if (before != kNone && extents_[before].free) {
    merge(before, extent);
    extent = before;
  }
  set_free(extent, true);
}

// The end of a growing segment could become any size, so any gap fits better.
std::size_t CachingAllocator::best_fit(std::int64_t size, bool small) const {
  const Pool& free = pools_[small ? 0 : 1];
  const std::size_t end = ends_[small ? 0 : 1];
  auto fit = free.lower_bound({size, 0, 0});
  if (fit == free.end() || fit->extent != end) return fit == free.end() ? kNone : fit->extent;
  const auto next = std::next(fit);
  return next == free.end() ? end : next->extent;
}

std::size_t CachingAllocator::new_segment(std::int64_t size, bool small) {
  const std::int64_t whole = segment_size(size, small);
  const std::size_t extent = add({.address = top_, .size = whole, .small = small});
  top_ += whole;
  reserve(whole);
  return extent;
}

std::size_t CachingAllocator::grow(std::int64_t size, bool small) {
  std::size_t& end = ends_[small ? 0 : 1];
  if (end == kNone) end = add({.address = small ? 0 : kAddressSpace, .small = small});
  const bool free = extents_[end].free;
  const std::int64_t at_hand = free ? extents_[end].size : 0;
  const std::int64_t more = rounded_up(size - at_hand, small ? kSmallSegment : kLargeSegment);
  if (free || extents_[end].size == 0) {
    if (free) set_free(end, false);
    extents_[end].size += more;
  } else {
    const Extent last = extents_[end];
    const std::size_t fresh = add({.address = last.address + last.size, .size = more, .before = end, .small = small});
    extents_[end].after = fresh;
    end = fresh;
  }
  reserve(more);
  return end;
}

void CachingAllocator::split(std::size_t extent, std::int64_t size) {
  const Extent whole = extents_[extent];
  const std::size_t rest = add(
      {.address = whole.address + size, .size = whole.size - size, .before = extent, .after = whole.after, .small = whole.small});
  extents_[extent].size = size;
  extents_[extent].after = rest;
  if (whole.after != kNone) extents_[whole.after].before = rest;
  for (std::size_t& end : ends_) end = end == extent ? rest : end;
  set_free(rest, true);
}

// `next` becomes part of `extent`, which is before it.
void CachingAllocator::merge(std::size_t extent, std::size_t next) {
  if (extents_[extent].free) set_free(extent, false);
  if (extents_[next].free) set_free(next, false);
  extents_[extent].size += extents_[next].size;
  extents_[extent].after = extents_[next].after;
  if (extents_[next].after != kNone) extents_[extents_[next].after].before = extent;
  for (std::size_t& end : ends_) end = end == next ? extent : end;
  unused_.push_back(next);
}

std::size_t CachingAllocator::add(const Extent& extent) {
  if (unused_.empty()) {
    extents_.push_back(extent);
    return extents_.size() - 1;
  }
  const std::size_t place = unused_.back();
  unused_.pop_back();
  extents_[place] = extent;
  return place;
}

void CachingAllocator::set_free(std::size_t extent, bool free) {
  Extent& e = extents_[extent];
  const Fit fit{e.size, e.address, extent};
  if (e.free && !free) pool(e.small).erase(fit);
  if (!e.free && free) pool(e.small).insert(fit);
  e.free = free;
}

void CachingAllocator::reserve(std::int64_t size) {
  reserved_ += size;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

}  // namespace llmsim::sim
