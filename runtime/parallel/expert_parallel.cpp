#include "runtime/parallel/expert_parallel.h"

#include <numeric>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Counts sums(const std::vector<Counts>& lists) {
  Counts all;
  for (const Counts& counts : lists) all.push_back(sum(counts));
  return all;
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// A piece for each rank and expert: the first index changes slowest in `rows`, the second in the
// result.
at::Tensor transposed(const at::Tensor& rows, const std::vector<Counts>& pieces) {
  const std::size_t outer = pieces.size(), inner = pieces.front().size();
  std::vector<at::Tensor> found(outer * inner);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t j = 0; j < inner; ++j) {
      found[j * outer + i] = rows.narrow(0, begin, pieces[i][j]);
      begin += pieces[i][j];
    }
  }
  return at::cat(found);
}

std::vector<Counts> by_expert(const std::vector<Counts>& by_rank) {
  std::vector<Counts> turned(by_rank.front().size(), Counts(by_rank.size()));
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (std::size_t expert = 0; expert < turned.size(); ++expert)
      turned[expert][rank] = by_rank[rank][expert];
  }
  return turned;
}

}  // namespace

ExpertLoad ExpertParallel::load(const Counts& rows, bool balanced, c10::Device device) const {
  if (size() == 1) return {.sent = {sum(rows)}, .received = {rows}, .rows = rows};
  const std::size_t own = rows.size() / index(size());
  Counts arriving(rows.size());
  exchange_counts(arriving, rows, balanced, device);
  ExpertLoad load;
  load.rows.assign(own, 0);
  for (int peer = 0; peer < size(); ++peer) {
    const auto first = static_cast<std::ptrdiff_t>(own * index(peer)),
               last = first + static_cast<std::ptrdiff_t>(own);
    load.sent.push_back(sum(Counts(rows.begin() + first, rows.begin() + last)));
    load.received.emplace_back(arriving.begin() + first, arriving.begin() + last);
    for (std::size_t expert = 0; expert < own; ++expert)
      load.rows[expert] += load.received.back()[expert];
  }
  return load;
}

void ExpertParallel::exchange_counts(Counts& received, const Counts& rows, bool balanced,
                                     c10::Device device) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
  at::Tensor out = at::empty({count}, options), in = at::empty({count}, options);
  if (!device.is_meta())
    out.copy_(at::from_blob(const_cast<std::int64_t*>(rows.data()), {count}, at::kLong));
  group_->all_to_all(in, out);
  if (!balanced) {
    at::from_blob(received.data(), {count}, at::kLong).copy_(in);
    return;
  }
  const std::size_t own = rows.size() / index(size()), first = own * index(rank());
  for (std::size_t i = 0; i < received.size(); ++i) received[i] = rows[first + i % own];
}

at::Tensor ExpertParallel::exchanged(const at::Tensor& rows, const Counts& sent,
                                     const Counts& received) const {
  at::Tensor arrived = at::empty({sum(received), rows.size(1)}, rows.options());
  group_->all_to_all(arrived, rows, {.received = received, .sent = sent});
  return arrived;
}

at::Tensor ExpertParallel::to_experts(at::Tensor rows, const ExpertLoad& load) const {
  if (size() == 1) return rows;
  rows = exchanged(rows, load.sent, sums(load.received));
  return load.rows.size() == 1 ? rows : transposed(rows, load.received);
}

at::Tensor ExpertParallel::from_experts(at::Tensor rows, const ExpertLoad& load) const {
  if (size() == 1) return rows;
  if (load.rows.size() > 1) rows = transposed(rows, by_expert(load.received));
  return exchanged(rows, sums(load.received), load.sent);
}

}  // namespace llmsim::runtime
