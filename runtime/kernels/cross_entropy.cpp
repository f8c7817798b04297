#include "runtime/kernels/cross_entropy.h"

#include <utility>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

at::Tensor as_fp32(at::Tensor logits) {
  return logits.scalar_type() == at::kFloat ? std::move(logits) : logits.to(at::kFloat);
}

struct LocalTargets {
  at::Tensor columns;  // (t, 1); 0 where the target is another rank's
  at::Tensor foreign;  // (t, 1)
};

LocalTargets local_targets(const at::Tensor& targets, std::int64_t columns,
                           const VocabularyShard& shard) {
  at::Tensor local = targets.sub(shard.first_row).unsqueeze_(1);
  at::Tensor foreign = local.lt(0).bitwise_or_(local.ge(columns));
  local.masked_fill_(foreign, 0);
  return {.columns = std::move(local), .foreign = std::move(foreign)};
}

LossOutput whole(at::Tensor logits, const at::Tensor& targets, const LossContext& context) {
  LossOutput out;
  out.saved = at::_log_softmax(logits, -1, false);
  logits.reset();
  out.loss = out.saved.gather(1, targets.unsqueeze(1)).sum().div_(-context.tokens_of_step);
  return out;
}

LossOutput divided(at::Tensor logits, const at::Tensor& targets, const LossContext& context) {
  const LocalTargets local = local_targets(targets, logits.size(1), context.shard);
  at::Tensor largest = logits.amax(-1, /*keepdim=*/true);
  context.tensor->all_reduce(largest, Reduction::Max);
  logits.sub_(largest);
  at::Tensor picked = logits.gather(1, local.columns).masked_fill_(local.foreign, 0.0);
  context.tensor->all_reduce(picked);
  logits.exp_();
  at::Tensor sum = logits.sum(-1, /*keepdim=*/true);
  context.tensor->all_reduce(sum);
  logits.div_(sum);
  largest.reset();
  LossOutput out{.loss = {}, .saved = std::move(logits)};
  out.loss = sum.log_().sub_(picked).sum().div_(context.tokens_of_step);
  return out;
}

}  // namespace

LossOutput cross_entropy(at::Tensor logits, const at::Tensor& targets, const LossContext& context) {
  at::Tensor wide = as_fp32(std::move(logits));
  return context.shard.divided ? divided(std::move(wide), targets, context)
                               : whole(std::move(wide), targets, context);
}

at::Tensor cross_entropy_backward(at::Tensor saved, const at::Tensor& targets,
                                  const LossContext& context, at::ScalarType type) {
  if (context.shard.divided) {
    const LocalTargets local = local_targets(targets, saved.size(1), context.shard);
    saved.scatter_add_(
        1, local.columns,
        at::full(local.columns.sizes(), -1.0, saved.options()).masked_fill_(local.foreign, 0.0));
  } else {
    saved.exp_().scatter_add_(1, targets.unsqueeze(1),
                              at::full({saved.size(0), 1}, -1.0, saved.options()));
  }
  saved.div_(context.tokens_of_step);
  return saved.scalar_type() == type ? std::move(saved) : saved.to(type);
}

}  // namespace llmsim::runtime
