#include "runtime/kernels/embedding.h"

#include <ATen/ATen.h>

#include "runtime/kernels/linear.h"

namespace llmsim::runtime {
namespace {

struct LocalIds {
  at::Tensor ids;      // rows of this rank's shard; 0 for foreign tokens
  at::Tensor foreign;  // (t, 1), true for tokens of other ranks
};

LocalIds local_ids(const at::Tensor& ids, std::int64_t rows, const VocabularyShard& shard) {
  at::Tensor local = ids.sub(shard.first_row);
  at::Tensor foreign = local.lt(0).bitwise_or_(local.ge(rows));
  local.masked_fill_(foreign, 0);
  return {.ids = std::move(local), .foreign = foreign.unsqueeze(1)};
}

at::Tensor by_sequence(const at::Tensor& x, std::int64_t seq_len) {
  return x.view({-1, seq_len, x.size(1)});
}

}  // namespace

at::Tensor embed(const at::Tensor& ids, const at::Tensor& table, const VocabularyShard& shard) {
  if (!shard.divided) return table.index_select(0, ids);
  const LocalIds local = local_ids(ids, table.size(0), shard);
  return table.index_select(0, local.ids).masked_fill_(local.foreign, 0.0);
}

void add_embedding_gradient(const at::Tensor& dx, const at::Tensor& ids,
                            const at::Tensor& table_gradient, const VocabularyShard& shard) {
  const bool same = dx.scalar_type() == table_gradient.scalar_type();
  if (!shard.divided) {
    table_gradient.index_add_(0, ids, same ? dx : dx.to(table_gradient.scalar_type()));
    return;
  }
  const LocalIds local = local_ids(ids, table_gradient.size(0), shard);
  const at::Tensor own = dx.masked_fill(local.foreign, 0.0);
  table_gradient.index_add_(0, local.ids, same ? own : own.to(table_gradient.scalar_type()));
}

void add_positions(at::Tensor x, const at::Tensor& positions, std::int64_t seq_len) {
  by_sequence(x, seq_len).add_(positions.narrow(0, 0, seq_len));
}

void add_position_gradient(const at::Tensor& dx, const at::Tensor& gradient, std::int64_t seq_len) {
  accumulate(gradient.narrow(0, 0, seq_len), by_sequence(dx, seq_len).sum(0));
}

}  // namespace llmsim::runtime
