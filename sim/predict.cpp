#include "sim/predict.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/memory/shards.h"
#include "sim/model/layer_kinds.h"
#include "sim/schedule/step_error.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {
namespace {

// FLOPs that one step of the whole batch needs, by the shape of the model alone.
Flops model_flops(const Run& run) {
  const Strategy& s = run.strategy;
  const int layers = run.model.num_layers + run.model.mtp_layers;
  const double adapters =
      s.adapters ? s.tp * rank_parameters(run.model, s).adapters(count_layers(run.model, 0, layers))
                 : 0.0;
  const double tokens = real(s.global_batch) * run.model.seq_len;
  return tokens * training_flops_per_token(run.model, adapters);
}

// FLOPs that one step executes on the whole cluster, from the operators of one tensor rank.
Flops hardware_flops(const Run& run, const LayerPrices& prices) {
  const Strategy& s = run.strategy;
  const int layers = run.model.num_layers + run.model.mtp_layers;
  Flops blocks;
  for_each_kind(count_layers(run.model, 0, layers), [&](std::size_t slot, int count) {
    const BlockPrice& block = prices.blocks[slot];
    blocks += count * (block.forward.flops + block.backward.flops);
  });
  for (const ModelChunk& chunk : model_chunks(run.model, s)) {
    const KindTable<double> shares = shares_of(chunk.of_kind);
    const double recomputed = s.recompute.blocks_of(chunk.blocks);
    Flops again;
    for (std::size_t slot = 0; slot < prices.blocks.size(); ++slot)
      again += shares[slot] * recomputed * prices.blocks[slot].recompute.flops;
    blocks += again;
  }
  const BlockPrice& head = prices.head;
  const BlockPrice& embedding = prices.embedding;
  const Flops embedding_and_head = head.forward.flops + head.backward.flops + head.recompute.flops +
                                   embedding.forward.flops + embedding.backward.flops;
  const double replicas = real(s.tp) * s.cp * s.global_batch / s.micro_batch;
  return replicas * (blocks + embedding_and_head);
}

// "12.3 GiB"
std::string gib_text(Bytes size) {
  const std::string digits =
      std::to_string(static_cast<long long>(std::llround(size / GiB * 10.0)));
  return (digits.size() > 1 ? digits.substr(0, digits.size() - 1) : "0") + "." + digits.back() +
         " GiB";
}

// "12 %"
std::string probability_text(double probability) {
  const long percents = std::lround(100.0 * probability);
  return percents < 1 ? "less than 1 %" : std::to_string(percents) + " %";
}

void add_out_of_memory(Prediction& prediction) {
  const Memory& memory = prediction.memory;
  if (!memory.fits()) {
    prediction.infeasible =
        Infeasible{.rule = "out of memory",
                   .message = "out of memory: needs " + gib_text(memory.needed()) + ", " +
                              gib_text(memory.capacity) + " usable; fits with " +
                              probability_text(memory.fit_probability()) + " probability"};
  } else if (!memory.host.fits()) {
    const std::string when = memory.host.loading ? " to load the model" : "";
    prediction.infeasible = Infeasible{
        .rule = "out of host memory",
        .message = "out of host memory: needs " + gib_text(memory.host.node) + " per node" + when +
                   ", " + gib_text(memory.host.capacity) + " installed"};
  }
}

void add_step(Prediction& prediction, const LayerPrices& prices) {
  const Run& run = prediction.run;
  StepTimes step = simulate_step(run, prices);
  const PredictionErrors& errors = run.framework.errors;
  const double error = step_error(run, step_slopes(run, prices, step));
  prediction.step_time = step.total;
  prediction.interval = {step.total * std::exp(-errors.faster * error),
                         step.total * std::exp(errors.slower * error)};
  prediction.breakdown = std::move(step.breakdown);
  prediction.communication = std::move(step.communication);
  prediction.bubble = step.bubble;
}

// The same step while the network is slow.
void add_slow_state(Prediction& prediction) {
  const double fraction = prediction.run.cluster.network.slow_fraction;
  if (fraction >= 1.0 || prediction.run.cluster.num_nodes() == 1) return;
  Run slow = prediction.run;
  slow.cluster.network.node_bandwidth = fraction * slow.cluster.network.node_bandwidth;
  slow.cluster.network.socket_bandwidth = fraction * slow.cluster.network.socket_bandwidth;
  prediction.slow_step_time = step_time(slow, layer_prices(slow));
  prediction.interval.second = std::max(prediction.interval.second, *prediction.slow_step_time);
}

void add_rates(Prediction& prediction) {
  const Run& run = prediction.run;
  const double tokens = real(run.strategy.global_batch) * run.model.seq_len;
  const int devices = run.cluster.num_devices;
  const FlopsPerSecond peak = prediction.peak =
      run.cluster.device.peak(matmul_dtype(run.strategy.precision));
  prediction.tokens_per_second_per_device =
      tokens / devices / (prediction.step_time / Seconds(1.0));
  prediction.flops_per_device = prediction.model_flops / prediction.step_time / devices;
  prediction.mfu = prediction.flops_per_device / peak;
  prediction.hfu = prediction.hardware_flops / prediction.step_time / devices / peak;
  prediction.conventions = conventions(run.model, {.tokens = tokens,
                                                   .model = prediction.model_flops,
                                                   .hardware = prediction.hardware_flops,
                                                   .step_time = prediction.step_time,
                                                   .num_devices = devices,
                                                   .peak = peak});
}

// Model FLOPs follow from the model and the batch alone: more of them than the peak takes
// coefficients that no device has.
void require_possible(const Prediction& p) {
  if (p.step_time > Seconds(0.0) && std::isfinite(p.step_time.value()) && p.mfu >= 0.0 &&
      p.mfu <= 1.0)
    return;
  throw Error("mfu = " + std::to_string(p.mfu) + " at a step of " +
              std::to_string(p.step_time.value()) + " s: the coefficients of " +
              p.run.cluster.device.id + " or of the framework " + p.run.framework.id +
              " are beyond the peak of the device; `llmsim hardware show` lists them");
}

constexpr double kFarOff = 3.0;

std::string percent(double share) { return std::to_string(std::lround(100.0 * share)) + " %"; }

// "3.4", "12".
std::string times(double factor) {
  const long tenths = std::lround(10.0 * factor);
  return tenths >= 100 || tenths % 10 == 0
             ? std::to_string((tenths + 5) / 10)
             : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string recipe(const Prediction& p) {
  return p.run.cluster.device.id + " in " + name_of(matmul_dtype(p.run.strategy.precision));
}

// A run on more than a system has, or on other devices: what there is of it is taken as it is.
void add_beyond_the_system(const Cluster& cluster, std::vector<std::string>& lines) {
  if (cluster.system_devices) {
    lines.push_back(equals("num_devices", cluster.num_devices) + ": system " + cluster.id +
                    " has " + std::to_string(*cluster.system_devices) +
                    " devices; predicted as if it had more nodes of the same kind");
  }
  if (cluster.system_accelerator) {
    lines.push_back("accelerator = " + cluster.device.id + ": system " + cluster.id + " has " +
                    *cluster.system_accelerator +
                    "; predicted with its nodes and network around the other device");
  }
}

std::vector<std::string> implausible_figures(const Prediction& p) {
  std::vector<std::string> lines = p.run.warnings;
  for (std::string& line : beyond_offers(p.run.framework, p.run.strategy))
    lines.push_back(std::move(line));
  add_beyond_the_system(p.run.cluster, lines);
  const Achieved& achieved = p.run.cluster.device.achieved;
  const double best =
      achieved.gemm[static_cast<std::size_t>(matmul_dtype(p.run.strategy.precision))]
          .max_efficiency;
  if (p.hfu > 1.0) {
    lines.push_back("hfu = " + percent(p.hfu) + " is more than the peak of " + recipe(p) +
                    ": a coefficient of the device or of the framework is too good");
  } else if (p.hfu > best) {
    lines.push_back("hfu = " + percent(p.hfu) + " is more than the " + percent(best) +
                    " that the best measured GEMMs of " + recipe(p) + " reach");
  }
  if (achieved.memory_fraction > 1.0) {
    lines.push_back("memory-bound operators move " + percent(achieved.memory_fraction) +
                    " of the data sheet's memory bandwidth of " + p.run.cluster.device.id +
                    ": its memory_fraction is too good");
  }
  return lines;
}

Prediction predicted(const Run& asked, bool explains_peaks) {
  asked.model.validate();
  Prediction prediction{.run = asked};
  const Run& run = prediction.run;
  prediction.infeasible = broken_rule(run.model, run.strategy, run.cluster);
  prediction.parameters = parameters(asked.model);
  prediction.unpadded_vocab_size = asked.model.vocab_size;
  if (prediction.infeasible) return prediction;
  prediction.run.model.vocab_size = trained_vocab_size(asked);
  const LayerPrices prices = layer_prices(run);
  add_step(prediction, prices);
  add_slow_state(prediction);
  prediction.model_flops = model_flops(asked);
  prediction.hardware_flops = hardware_flops(run, prices);
  prediction.memory = memory_footprint(run, prices);
  if (explains_peaks) prediction.memory_peak = explain_peaks(prediction.memory, run, prices);
  add_rates(prediction);
  require_possible(prediction);
  add_out_of_memory(prediction);
  prediction.warnings = implausible_figures(prediction);
  return prediction;
}

}  // namespace

Prediction predict(const Run& asked) { return predicted(asked, true); }
Prediction predict_without_terms(const Run& asked) { return predicted(asked, false); }

std::vector<std::string> implausible_measurement(const Prediction& p, Seconds measured) {
  std::vector<std::string> lines;
  const double mfu = p.mfu * (p.step_time / measured);
  if (mfu > 1.0) {
    lines.push_back("the measured step does " + percent(mfu) + " of the peak of " + recipe(p) +
                    ": check step_time_s, num_devices and the batch");
  }
  const double ratio = measured / p.step_time;
  if (ratio > kFarOff)
    lines.push_back("the measured step takes " + times(ratio) + " times as long as predicted");
  if (ratio < 1.0 / kFarOff)
    lines.push_back("the predicted step takes " + times(1.0 / ratio) +
                    " times as long as measured");
  return lines;
}

std::vector<SwitchWorth> switch_worths(const Run& run, const std::vector<std::string>& keys) {
  const Seconds time = predict_without_terms(run).step_time;
  std::vector<SwitchWorth> worths;
  for (const std::string& key : keys) {
    const StrategyField* const field = find_strategy_field(key);
    if (!field || field->kind != FieldKind::Switch) continue;
    const std::optional<FieldValue> value = field->get(run.strategy);
    if (!value || !std::holds_alternative<bool>(*value)) continue;
    const bool on = std::get<bool>(*value);
    Run other = run;
    put(PartialStrategy{{key, !on}}, other.strategy);
    const Prediction prediction = predict_without_terms(other);
    if (prediction.feasible() && prediction.step_time != time)
      worths.push_back({key, on, prediction.step_time / time});
  }
  std::stable_sort(worths.begin(), worths.end(), [](const SwitchWorth& a, const SwitchWorth& b) {
    return std::abs(std::log(a.other_way)) > std::abs(std::log(b.other_way));
  });
  return worths;
}

}  // namespace llmsim::sim
