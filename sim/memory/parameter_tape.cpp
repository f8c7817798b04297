#include "sim/memory/parameter_tape.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/dtype.h"

namespace llmsim::sim {
namespace {}  // namespace

ParameterTape::ParameterTape(const Strategy& strategy, const Framework& framework, int ranks, std::vector<double> units)
    : strategy_(strategy),
      framework_(framework),
      storage_(storage_of(strategy, framework)),
      element_(size_of(activation_dtype(strategy.precision)).value()),
      ranks_(ranks),
      units_(std::move(units)),
      whole_(units_.size(), Whole::No),
      lent_gradients_(units_.size(), false) {
  for (double& unit : units_) unit = std::ceil(unit / ranks_) * ranks_;
}

double ParameterTape::sum() const { return std::accumulate(units_.begin(), units_.end(), 0.0); }

Bytes ParameterTape::weights() const { return Bytes((shards_weights() ? shard(sum()) : sum()) * storage_.weight_bytes); }
Bytes ParameterTape::gradients() const { return Bytes((shards_gradients() ? shard(sum()) : sum()) * storage_.gradient_bytes); }
Bytes ParameterTape::master() const { return Bytes(on_host_states() ? 0.0 : shard(sum()) * storage_.master_bytes); }
Bytes ParameterTape::states() const { return Bytes(on_host_states() ? 0.0 : shard(sum()) * 2.0 * storage_.state_bytes); }
Bytes ParameterTape::on_host() const {
  return Bytes(on_host_states() ? shard(sum()) * (kFp32Bytes + 2.0 * storage_.state_bytes) : 0.0);
}

void ParameterTape::begin_pass(Ledger& ledger, std::vector<std::size_t> units) {
  finish_gradients(ledger);
  pass_ = std::move(units);
}

void ParameterTape::start_gather(Ledger& ledger, std::size_t unit) {
  if (whole_[unit] != Whole::No) return;
  ledger.take(sent_shard(unit));
  ledger.take(whole_weights(unit));
  whole_[unit] = Whole::UnderWay;
}

void ParameterTape::lend(Ledger& ledger, std::size_t unit) {
  if (!shards_weights()) {
    if (casts()) ledger.take(whole_weights(unit));
    return;
  }
  start_gather(ledger, unit);
  if (whole_[unit] == Whole::UnderWay) ledger.give(sent_shard(unit));
  whole_[unit] = Whole::Here;
  const auto here = static_cast<std::size_t>(std::find(pass_.begin(), pass_.end(), unit) - pass_.begin());
  const auto ahead = static_cast<std::size_t>(framework_.sharded.prefetch_units);
  for (std::size_t next = here + 1; next < pass_.size() && next <= here + ahead; ++next) start_gather(ledger, pass_[next]);
}

void ParameterTape::take_back(Ledger& ledger, std::size_t unit) {
  if (shards_weights() || casts()) ledger.give(whole_weights(unit));
  whole_[unit] = Whole::No;
}

void ParameterTape::after_forward(Ledger& ledger, std::size_t unit) {
  if (!shards_weights() || framework_.sharded.regathers_in_backward) take_back(ledger, unit);
}

void ParameterTape::lend_gradients(Ledger& ledger, std::size_t unit) {
  if (!shards_gradients() || lent_gradients_[unit]) return;
  ledger.take(whole_gradients(unit));
  lent_gradients_[unit] = true;
}

void ParameterTape::before_backward(Ledger& ledger, std::size_t unit) {
  lend(ledger, unit);
  lend_gradients(ledger, unit);
}

void ParameterTape::after_backward(Ledger& ledger, std::size_t unit, bool last) {
  take_back(ledger, unit);
  if (!shards_gradients()) return;
  if (!last && !shards_weights() && !framework_.gradients.reduced_every_microbatch) return;
  finish_gradients(ledger);
  under_reduction_ = whole_gradients(unit);
  lent_gradients_[unit] = false;
}

void ParameterTape::finish_gradients(Ledger& ledger) { ledger.give(std::exchange(under_reduction_, Bytes(0.0))); }

void ParameterTape::take_norm(Ledger& ledger) { ledger.pass(Bytes(2.0 * kFp32Bytes)); }

void ParameterTape::update(Ledger& ledger, Ledger& host) {
  const double cast = storage_.gradient_bytes < kFp32Bytes ? kFp32Bytes : 0.0;
  if (on_host_states()) {
    for (const double unit : units_) host.pass(Bytes((storage_.gradient_bytes + cast + kFp32Bytes) * shard(unit) + kFp32Bytes));
    return;
  }
  const double each = (framework_.update.fused ? 0.0 : kFp32Bytes) + cast;
  if (!framework_.update.unit_by_unit) {
    ledger.pass(Bytes(each * shard(sum())));
    return;
  }
  for (const double unit : units_) ledger.pass(Bytes(each * shard(unit) + kFp32Bytes));
}

}  // namespace llmsim::sim
