#include "sim/strategy/validity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "sim/base/number_text.h"

namespace llmsim::sim {
namespace {

constexpr int kLargestSize = 1 << 20;

std::int64_t product_of(int a, int b) { return static_cast<std::int64_t>(a) * b; }

// As a double, because four absurd sizes overflow an integer.
double mesh_product(const Strategy& s) { return static_cast<double>(s.dp) * s.tp * s.pp * s.cp; }

bool divide_each_other(std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; }

// The nearest values on both sides of `value`, up to `most`, that `works` accepts, as "4 or 8";
// empty where there is none.
template <typename Works>
std::string nearest(std::int64_t value, std::int64_t most, const Works& works) {
  std::int64_t below = std::min(value, most), above = value + 1;
  while (below > 0 && !works(below)) --below;
  while (above <= most && !works(above)) ++above;
  std::string text = below > 0 ? std::to_string(below) : "";
  if (above <= most) text += (text.empty() ? "" : " or ") + std::to_string(above);
  return text;
}

std::string nearest_divisors(std::int64_t number, std::int64_t value) {
  return nearest(value, number, [number](std::int64_t d) { return number % d == 0; });
}

// Tensor ranks that divide everything of the model that they must.
std::string nearest_tensor_ranks(const Transformer& model, int value) {
  return nearest(value, model.num_heads, [&](std::int64_t t) {
    return model.num_heads % t == 0 && model.ffn_size % t == 0 &&
           divide_each_other(model.num_kv_heads, t) &&
           (!model.window_attention ||
            (model.window_attention->num_heads % t == 0 &&
             divide_each_other(model.window_attention->num_kv_heads, t)));
  });
}

std::string divides_message(const std::string& name, std::int64_t value,
                            const std::string& whole_name, std::int64_t whole) {
  return equals(name, value) + " does not divide " + equals(whole_name, whole) +
         " (nearest: " + nearest_divisors(whole, value) + ")";
}

// A strategy on its way through the rules: the first that it breaks, by name and, where someone
// asks, in words.
struct Check {
  const Transformer& model;
  const Strategy& s;
  int devices;
  std::string* message = nullptr;  // null: nobody asks
  const char* rule = nullptr;

  // `words`: of them one makes the message.
  template <class Words>
  bool breaks(const char* name, const Words& words) {
    rule = name;
    if (message) *message = words();
    return true;
  }
  // That `value` divides `whole`.
  bool breaks_division(const char* name, std::string_view value_name, std::int64_t value,
                       std::string_view whole_name, std::int64_t whole) {
    return whole % value != 0 && breaks(name, [&] {
             return divides_message(std::string(value_name), value, std::string(whole_name), whole);
           });
  }
};

bool breaks_size(Check& c) {
  const Strategy& s = c.s;
  const std::array<int, 8> sizes{s.dp,          s.tp,          s.pp, s.cp, s.ep, s.virtual_stages,
                                 s.micro_batch, s.global_batch};
  return std::any_of(sizes.begin(), sizes.end(),
                     [](int size) { return size < 1 || size > kLargestSize; }) &&
         c.breaks("sizes out of range", [] {
           return "every size of the mesh and of the batch must be from 1 to " +
                  std::to_string(kLargestSize);
         });
}

bool breaks_mesh(Check& c) {
  const Strategy& s = c.s;
  return mesh_product(s) != c.devices && c.breaks("dp * tp * pp * cp != devices", [&] {
    const std::string sizes = std::to_string(s.dp) + " * " + std::to_string(s.tp) + " * " +
                              std::to_string(s.pp) + " * " + std::to_string(s.cp);
    return "dp * tp * pp * cp = " + sizes + " = " + std::to_string(std::llround(mesh_product(s))) +
           ", but there are " + std::to_string(c.devices) + " devices" + mesh_advice(s, c.devices);
  });
}

// Of an all-to-all inside a ring.
bool breaks_inner_context(Check& c) {
  const int inner = c.s.context_inner_ranks();
  if (inner < 1 || c.s.cp % inner != 0)
    return c.breaks("cp_inner does not divide cp",
                    [&] { return divides_message("cp_inner", inner, "cp", c.s.cp); });
  const std::int64_t ranks = product_of(inner, c.s.tp);
  return inner > 1 &&
         (c.breaks_division("cp_inner * tp does not divide num_heads", "cp_inner * tp", ranks,
                            "num_heads", c.model.num_heads) ||
          (!c.model.mla &&
           c.breaks_division("cp_inner * tp does not divide num_kv_heads", "cp_inner * tp", ranks,
                             "num_kv_heads", c.model.num_kv_heads)));
}

bool breaks_context(Check& c) {
  const Strategy& s = c.s;
  if (s.cp == 1) return false;
  if (!s.flash_attention)
    return c.breaks("context parallelism needs flash attention", [&] {
      return equals("cp", s.cp) + " needs flash attention: kernels that return partial results";
    });
  const std::int64_t ranks = product_of(s.cp, s.tp);
  if (s.cp_scheme == ContextScheme::AllToAllRing && breaks_inner_context(c)) return true;
  if (s.context_scheme() != ContextScheme::AllToAll)
    return !c.model.encoder && s.cp_balanced &&
           c.breaks_division("2 * cp does not divide seq_len", "2 * cp", product_of(2, s.cp),
                             "seq_len", c.model.seq_len);
  if (c.breaks_division("cp * tp does not divide num_heads", "cp * tp", ranks, "num_heads",
                        c.model.num_heads))
    return true;
  return !divide_each_other(c.model.num_kv_heads, ranks) &&
         c.breaks("cp * tp and num_kv_heads do not divide each other", [&] {
           return divides_message("cp * tp", ranks, "num_kv_heads", c.model.num_kv_heads);
         });
}

bool breaks_experts(Check& c) {
  const Strategy& s = c.s;
  const std::int64_t etp = s.expert_tensor_ranks();
  const bool own = etp != s.tp;
  if (!c.model.moe)
    return s.ep > 1 && c.breaks("ep > 1 needs an MoE model", [&] {
      return equals("ep", s.ep) + " needs an MoE model, which the model is not (nearest: ep = 1)";
    });
  const Moe& moe = *c.model.moe;
  if (etp < 1 || s.tp % etp != 0)
    return c.breaks("etp does not divide tp",
                    [&] { return divides_message("etp", etp, "tp", s.tp); });
  if (own && !s.sequence_parallel)
    return c.breaks("etp != tp needs sequence parallelism", [&] {
      return equals("etp", etp) + " is not " + equals("tp", s.tp) +
             ", which needs sequence parallelism: each tensor rank dispatches tokens of its own "
             "(nearest: etp = tp)";
    });
  if (c.breaks_division("etp does not divide the width of an expert", own ? "etp" : "tp", etp,
                        "moe.expert_ffn_size", moe.expert_ffn_size) ||
      c.breaks_division("tp does not divide the width of a shared expert", "tp", s.tp,
                        "moe.shared_expert_ffn_size", moe.shared_expert_ffn_size) ||
      c.breaks_division("ep does not divide num_experts", "ep", s.ep, "num_experts",
                        moe.num_experts))
    return true;
  // With etp = tp both sides are tp times what people think in.
  const auto breaks_ranks = [&](const char* rule, const char* name, std::int64_t ranks) {
    return ranks * s.tp % (etp * s.ep) != 0 && c.breaks(rule, [&] {
      return own ? divides_message("etp * ep", etp * s.ep, std::string("tp * ") + name,
                                   ranks * s.tp)
                 : divides_message("ep", s.ep, name, ranks);
    });
  };
  if (breaks_ranks("etp * ep does not divide tp * dp * cp", "dp * cp", product_of(s.dp, s.cp)))
    return true;
  if (s.moe_imbalance.value_or(1.0) < 1.0 || s.moe_capacity.value_or(1.0) < 1.0)
    return c.breaks("an expert cannot have less than its share", [] {
      return "moe_imbalance and moe_capacity are relative to the mean load: 1 or more";
    });
  return s.replicates_shards() &&
         breaks_ranks("etp * ep does not divide tp * shard_size", "shard_size", s.shard_size);
}

bool exchanges_heads(const Transformer& model, const ScanMixer& mixer) {
  return mixer.mixer == Mixer::Mamba2 || mixer.mixer == Mixer::AttentionAndMamba2 ||
         (mixer.mixer == Mixer::GatedDeltaNet && !model.gated_delta_net->gate_rank);
}

// Scans work on whole sequences: context ranks exchange tokens for heads, as Megatron-LM does it
// for Mamba-2, where several of them may have the B and C of one group, and for gated delta nets
// without bottlenecks.
bool breaks_context_of_scans(Check& c) {
  if (c.s.cp == 1) return false;
  for (const ScanMixer& mixer : scan_mixers()) {
    if (mixer.is_given(c.model) && !exchanges_heads(c.model, mixer))
      return c.breaks("context parallelism of these scans is not offered", [&] {
        return equals("cp", c.s.cp) +
               ": scans of Mamba-2 and of gated delta nets have context parallelism, those of " +
               mixer.name + (mixer.mixer == Mixer::GatedDeltaNet ? " with gate_rank" : "") +
               " have not (nearest: cp = 1)";
      });
  }
  const std::int64_t ranks = product_of(c.s.cp, c.s.tp);
  if (c.model.gated_delta_net &&
      c.breaks_division("cp * tp does not divide gated_delta_net.num_key_heads", "cp * tp", ranks,
                        "gated_delta_net.num_key_heads", c.model.gated_delta_net->num_key_heads))
    return true;
  if (!c.model.mamba) return false;
  const int groups = c.model.mamba->num_groups;
  return c.breaks_division("cp * tp does not divide mamba.num_heads", "cp * tp", ranks,
                           "mamba.num_heads", c.model.mamba->num_heads) ||
         (!divide_each_other(groups, ranks) &&
          c.breaks("cp * tp and mamba.num_groups do not divide each other",
                   [&] { return divides_message("cp * tp", ranks, "mamba.num_groups", groups); }));
}

bool breaks_hybrid(Check& c) {
  const Strategy& s = c.s;
  if (!is_hybrid(c.model)) return false;
  for (const ScanMixer& mixer : scan_mixers()) {
    if (mixer.is_given(c.model) && c.breaks_division(mixer.divided_rule, "tp", s.tp,
                                                     mixer.divided_field(), mixer.divided(c.model)))
      return true;
  }
  if (breaks_context_of_scans(c)) return true;
  return s.moe_overlap && c.breaks("moe_overlap of hybrids is not offered", [] {
    return "moe_overlap pairs passes over layers of attention and experts, which a hybrid's are "
           "not (nearest: moe_overlap off)";
  });
}

bool breaks_shape(Check& c) {
  const Transformer& model = c.model;
  const int tp = c.s.tp;
  const auto tensor = [&](const char* rule, bool divides, const char* name, int whole) {
    return !divides && c.breaks(rule, [&] {
      return equals("tp", tp) + " does not divide " + equals(name, whole) +
             " (nearest: " + nearest_tensor_ranks(model, tp) + ")";
    });
  };
  if (tensor("tp does not divide num_heads", model.num_heads % tp == 0, "num_heads",
             model.num_heads) ||
      tensor("tp and num_kv_heads do not divide each other",
             divide_each_other(model.num_kv_heads, tp), "num_kv_heads", model.num_kv_heads) ||
      tensor("tp does not divide ffn_size", model.ffn_size % tp == 0, "ffn_size", model.ffn_size))
    return true;
  if (const auto& window = model.window_attention;
      window &&
      (tensor("tp does not divide window_attention.num_heads", window->num_heads % tp == 0,
              "window_attention.num_heads", window->num_heads) ||
       tensor("tp and window_attention.num_kv_heads do not divide each other",
              divide_each_other(window->num_kv_heads, tp), "window_attention.num_kv_heads",
              window->num_kv_heads)))
    return true;
  if (model.compressed_attention &&
      tensor("tp does not divide compressed_attention.output_groups",
             model.compressed_attention->output_groups % tp == 0,
             "compressed_attention.output_groups", model.compressed_attention->output_groups))
    return true;
  if ((model.sparse_attention || model.compressed_attention) && !c.s.flash_attention)
    return c.breaks("attention to chosen keys needs kernels of its own", [] {
      return "flash_attention = false: attention to chosen keys (sparse_attention) has kernels of "
             "its own, which flash_attention stands for (nearest: flash_attention on)";
    });
  const bool shards = c.s.sequence_parallel;
  return c.breaks_division("cp * tp does not divide seq_len", shards ? "cp * tp" : "cp",
                           product_of(c.s.cp, shards ? tp : 1), "seq_len", model.seq_len) ||
         breaks_hybrid(c) || breaks_context(c);
}

std::string schedule_of(const Strategy& s) {
  return std::string("pipeline_schedule = ") + name_of(s.pipeline_schedule);
}

std::string virtual_stages_of(const Strategy& s) {
  return equals("virtual_stages", s.virtual_stages);
}

// Of the schedules that split backward passes (pipeline/stage_order.h).
bool breaks_split_schedule(Check& c) {
  const Strategy& s = c.s;
  const bool vee = is_v_shaped(s.pipeline_schedule),
             both_ends = s.pipeline_schedule == PipelineSchedule::DualPipe;
  if (!vee && !both_ends && s.pipeline_schedule != PipelineSchedule::ZbH1) return false;
  if (s.pp == 1)
    return c.breaks("zero-bubble schedules and dualpipe need pp > 1",
                    [&] { return schedule_of(s) + " needs pp > 1, but pp = 1 (nearest: pp = 2)"; });
  if (s.virtual_stages != (vee ? 2 : 1))
    return c.breaks(vee ? "zb-v, v-half and v-min need virtual_stages = 2"
                        : "zb-h1 and dualpipe have one chunk of the model per stage",
                    [&] {
                      return schedule_of(s) + (vee ? " has two chunks" : " has one chunk") +
                             " of the model per stage, but " + virtual_stages_of(s) +
                             " (nearest: " + equals("virtual_stages", vee ? 2 : 1) + ")";
                    });
  if (!both_ends) return false;
  if (s.pp % 2 != 0)
    return c.breaks("dualpipe needs an even pp", [&] {
      return schedule_of(s) + " needs an even pp, but " + equals("pp", s.pp) +
             " (nearest: " + equals("pp", s.pp - 1) + " or " + std::to_string(s.pp + 1) + ")";
    });
  const int m = s.num_microbatches(), least = 2 * s.pp;
  if (m % 2 == 0 && m >= least) return false;
  return c.breaks("dualpipe needs an even num_microbatches >= 2 * pp", [&] {
    // Nearest numbers of micro-batches, as batches.
    const std::int64_t each = product_of(s.dp, s.micro_batch);
    const std::string nearest =
        m < least ? std::to_string(least * each)
                  : std::to_string((m - 1) * each) + " or " + std::to_string((m + 1) * each);
    return equals("num_microbatches", m) +
           ", but dualpipe feeds half of them into each end: an even number of at least " +
           equals("2 * pp", least) + " is needed (nearest: global_batch = " + nearest + ")";
  });
}

// A schedule and its number of chunks must agree: neither overrides the other.
bool breaks_chunks(Check& c) {
  const Strategy& s = c.s;
  const bool one = s.pipeline_schedule == PipelineSchedule::GPipe ||
                   s.pipeline_schedule == PipelineSchedule::OneForwardOneBackward;
  if (s.virtual_stages > 1 && one)
    return c.breaks("gpipe and 1f1b have one chunk per stage", [&] {
      return schedule_of(s) + " has one chunk per stage, but " + virtual_stages_of(s) +
             " (nearest: interleaved, or virtual_stages = 1)";
    });
  return s.pipeline_schedule == PipelineSchedule::Interleaved && s.virtual_stages == 1 &&
         c.breaks("interleaving needs virtual_stages >= 2", [&] {
           return schedule_of(s) + " needs several chunks per stage, but " + virtual_stages_of(s) +
                  " (nearest: 1f1b, or virtual_stages = 2)";
         });
}

bool breaks_stage_layers(Check& c) {
  const Strategy& s = c.s;
  const std::vector<int>& layers = s.stage_layers;
  if (layers.empty()) return false;
  const auto text = [&] {
    std::string list = "stage_layers = [";
    for (const int one : layers) list += (list.back() == '[' ? "" : ", ") + std::to_string(one);
    return list + "]";
  };
  const std::size_t stages = static_cast<std::size_t>(s.pp);
  if (layers.size() != stages &&
      layers.size() != stages * static_cast<std::size_t>(s.virtual_stages))
    return c.breaks("stage_layers needs a number for each stage or chunk", [&] {
      return text() + " has " + std::to_string(layers.size()) + " numbers, but " +
             equals("pp", s.pp) + " and " + virtual_stages_of(s);
    });
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != c.model.num_layers)
    return c.breaks("stage_layers does not add up to num_layers", [&] {
      return text() + " adds up to " + std::to_string(sum) + ", but " +
             equals("num_layers", c.model.num_layers);
    });
  const int chunks = layers.size() == stages ? s.virtual_stages : 1;
  const bool head_alone = layers.size() > 1 && chunks == 1 && layers.back() == 0;
  return *std::min_element(layers.begin(), layers.end() - (head_alone ? 1 : 0)) < chunks &&
         c.breaks("a stage needs a layer for each of its chunks", [&] {
           return text() + ": each stage needs a layer for each of its chunks, " +
                  virtual_stages_of(s) + ", but for the chunk of the head";
         });
}

bool breaks_pipeline(Check& c) {
  const Strategy& s = c.s;
  // To deal out: the embedding and the head count where the strategy says so.
  const int layers = c.model.num_layers + (s.embeddings_as_layers ? 2 : 0);
  if (s.virtual_stages > layers / s.pp)
    return c.breaks("pp * virtual stages > num_layers", [&] {
      return equals("pp * virtual_stages", product_of(s.pp, s.virtual_stages)) +
             " is more than the layers of the model, " + std::to_string(layers) + " (nearest: " +
             (s.pp <= layers ? equals("virtual_stages", layers / s.pp)
                             : equals("pp", std::max(1, layers / s.virtual_stages))) +
             ")";
    });
  if (s.virtual_stages > 1 && s.pp == 1)
    return c.breaks("virtual stages need pp > 1", [&] {
      return virtual_stages_of(s) +
             " needs pp > 1, but pp = 1 (nearest: virtual_stages = 1, or pp = 2)";
    });
  const std::int64_t replica_batch = product_of(s.dp, s.micro_batch);
  if (breaks_chunks(c) || breaks_stage_layers(c) ||
      c.breaks_division("dp * micro_batch does not divide global_batch", "dp * micro_batch",
                        replica_batch, "global_batch", s.global_batch))
    return true;
  const bool interleaves = s.virtual_stages > 1 && !is_v_shaped(s.pipeline_schedule);
  if (interleaves && s.num_microbatches() < s.pp)
    return c.breaks("interleaving needs num_microbatches >= pp", [&] {
      return equals("num_microbatches", s.num_microbatches()) + " is less than " +
             equals("pp", s.pp) + ", which the interleaved schedule needs (nearest: " +
             equals("global_batch", replica_batch * s.pp) + ", or " +
             equals("pp", s.num_microbatches()) + ", or virtual_stages = 1)";
    });
  return breaks_split_schedule(c);
}

bool breaks_shards(Check& c) {
  const Strategy& s = c.s;
  const std::int64_t ranks = product_of(s.dp, s.cp);
  if (s.sharding != Sharding::Hsdp && s.shard_size <= 0) return false;
  return (s.shard_size < 1 || ranks % s.shard_size != 0) &&
         c.breaks("shard_size does not divide dp * cp",
                  [&] { return divides_message("shard_size", s.shard_size, "dp * cp", ranks); });
}

// Stages lie between data ranks, so that experts must have as many of these as all else.
bool breaks_order(Check& c) {
  const Strategy& s = c.s;
  const std::int64_t experts = product_of(s.expert_tensor_ranks(), s.ep),
                     others = product_of(s.tp, s.cp);
  return s.mesh_order == MeshOrder::DataLast && s.pp > 1 && experts != others &&
         c.breaks("tp-cp-ep-pp-dp needs etp * ep = tp * cp", [&] {
           return std::string("mesh_order = ") + name_of(s.mesh_order) +
                  " puts stages between data ranks, of which experts and all else must have as "
                  "many: " +
                  equals("etp * ep", experts) + ", but " + equals("tp * cp", others) +
                  " (nearest: mesh_order = " + name_of(MeshOrder::PipelineLast) + ")";
         });
}

bool breaks_any(Check& c) {
  return breaks_size(c) || breaks_mesh(c) || breaks_shape(c) || breaks_pipeline(c) ||
         breaks_shards(c) || breaks_experts(c) || breaks_order(c);
}

}  // namespace

const char* broken_rule_name(const Transformer& model, const Strategy& strategy, int num_devices) {
  Check check{model, strategy, num_devices};
  return breaks_any(check) ? check.rule : nullptr;
}

std::string mesh_advice(const Strategy& s, int devices) {
  const std::int64_t rest = product_of(s.tp, s.pp) * s.cp;
  if (devices % rest == 0) return "; dp = " + std::to_string(devices / rest) + " would fit";
  std::string text = "; tp * pp * cp = " + std::to_string(rest) +
                     " must divide it (nearest: " + nearest_divisors(devices, rest) + ")";
  const std::int64_t inner = product_of(s.tp, s.cp);
  if (inner <= devices && devices % inner == 0 && s.pp > devices / inner) {
    text +=
        "; Megatron-LM of 2021 lowered pp to devices / tp = " + std::to_string(devices / inner) +
        " without a word: runs published as pp = " + std::to_string(s.pp) + " were that";
  }
  return text;
}

std::optional<Infeasible> broken_rule(const Transformer& model, const Strategy& strategy,
                                      const Cluster& cluster) {
  std::string message;
  Check check{model, strategy, cluster.num_devices, &message};
  if (!breaks_any(check)) return std::nullopt;
  return Infeasible{.rule = check.rule, .message = message};
}

}  // namespace llmsim::sim
