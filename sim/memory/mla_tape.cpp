#include "sim/memory/mla_tape.h"

#include "sim/memory/shards.h"

namespace llmsim::sim {

MlaTape::MlaTape(const Transformer& model, const Strategy& strategy, const Framework& framework)
    : mla_(*model.mla),
      kind_(model.norm),
      e_(size_of(activation_dtype(strategy.precision)).value()),
      gradient_(storage_of(strategy, framework).gradient_bytes),
      gathers_(strategy.sequence_parallel && strategy.tp > 1),
      tokens_(static_cast<double>(strategy.micro_batch) * model.seq_len),
      own_(gathers_ ? tokens_ / strategy.tp : tokens_),
      heads_(static_cast<double>(model.num_heads) / strategy.tp),
      query_(query_head_dim(model)),
      hidden_(model.hidden_size) {}

NormTape MlaTape::norm(double width) const {
  return {
      .kind = kind_, .rows = own_, .width = width, .element = e_, .gradient_element = gradient_, .weight = true, .bias = false};
}

Bytes MlaTape::kept() const {
  const NormTape mla = norm(mla_.kv_lora_rank), query = norm(query_rank());
  const Bytes of_queries = query_rank() > 0.0 ? 2.0 * query.output() + query.statistics() : Bytes(0.0);
  return own(mla_width()) + mla.output() + mla.statistics() + of_queries;
}

void MlaTape::down(Ledger& ledger) const {
  if (query_rank() > 0.0) {
    ledger.take(own(query_rank()));
    norm(query_rank()).forward(ledger);
  }
  ledger.take(own(mla_width()));
  norm(mla_.kv_lora_rank).forward(ledger);
}

void MlaTape::up(Ledger& ledger) const {
  if (gathers_) ledger.take(tokens(query_input()));
  ledger.take(queries());  // rows
  if (gathers_) ledger.give(tokens(query_input()));
  ledger.take(queries());
  ledger.give(queries());
  gather_mla(ledger);
  ledger.take(tokens(key_rows()));
  ledger.take(tokens(mla_.qk_rope_head_dim));  // rotated
  ledger.take(queries() + values());
  ledger.give(tokens(mla_.qk_rope_head_dim) + tokens(key_rows()));
  if (gathers_) ledger.give(tokens(mla_width()));
}

// Side by side first.
void MlaTape::gather_mla(Ledger& ledger) const {
  if (!gathers_) return;
  ledger.take(own(mla_width()));
  ledger.take(tokens(mla_width()));
  ledger.give(own(mla_width()));
}

void MlaTape::backward(Ledger& ledger) const {
  ledger.take(queries());  // rows
  ledger.give(queries());
  mla_backward(ledger);
  queries_backward(ledger);
  weight_gradient(ledger, mla_width() * hidden_);
  ledger.give(own(mla_width()) + own(hidden_));
}

// Ends holding the gradient of what the GEMM down gave, in the place of those of keys and values.
void MlaTape::mla_backward(Ledger& ledger) const {
  const double rank = mla_.kv_lora_rank;
  ledger.take(tokens(mla_width()));
  ledger.take(tokens(key_rows()));
  ledger.pass(tokens(mla_.qk_rope_head_dim));
  ledger.give(queries() + values());
  gather_mla(ledger);
  weight_gradient(ledger, key_rows() * rank);
  if (gathers_) ledger.give(tokens(mla_width()));
  ledger.give(own(rank));  // the norm's output
  ledger.pass(tokens(rank));
  ledger.give(tokens(key_rows()));
  column_gradient(ledger, mla_width());
  norm(rank).backward(ledger);
  ledger.give(own(rank) + norm(rank).statistics() + own(mla_width()));
}

// Ends holding the gradient of the block's norm in the place of the queries' rows.
void MlaTape::queries_backward(Ledger& ledger) const {
  ledger.take(tokens(query_input()));
  if (gathers_) ledger.take(tokens(query_input()));
  weight_gradient(ledger, heads_ * query_ * query_input());
  if (gathers_) ledger.give(tokens(query_input()));
  ledger.give(queries());
  column_gradient(ledger, query_input());
  if (query_rank() > 0.0) query_down_backward(ledger);
}

void MlaTape::query_down_backward(Ledger& ledger) const {
  const NormTape query = norm(query_rank());
  ledger.give(query.output());
  query.backward(ledger);
  ledger.give(2.0 * query.output() + query.statistics());  // of the output's gradient and the input
  weight_gradient(ledger, query_rank() * hidden_);
  ledger.take(own(hidden_));
  ledger.give(query.output());
}

void MlaTape::column_gradient(Ledger& ledger, double width) const {
  if (!gathers_) return;
  ledger.take(own(width));
  ledger.give(tokens(width));
}

// The GEMM in the activations' format, and its cast.
void MlaTape::weight_gradient(Ledger& ledger, double elements) const {
  if (gradient_ > e_) ledger.pass(Bytes(elements * (e_ + gradient_)));
}

}  // namespace llmsim::sim
