#include "sim/strategy/validity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace llmsim::sim {
namespace {

constexpr const char* kPositive = "sizes out of range";
constexpr int kLargestSize = 1 << 20;
constexpr const char* kMesh = "dp * tp * pp * cp != devices";
constexpr const char* kHeads = "tp does not divide num_heads";
constexpr const char* kKvHeads = "tp and num_kv_heads do not divide each other";
constexpr const char* kFfn = "tp does not divide ffn_size";
constexpr const char* kSequence = "cp * tp does not divide seq_len";
constexpr const char* kZigzag = "2 * cp does not divide seq_len";
constexpr const char* kContextHeads = "cp * tp does not divide num_heads";
constexpr const char* kContextKvHeads = "cp * tp and num_kv_heads do not divide each other";
constexpr const char* kContextFlash = "context parallelism needs flash attention";
constexpr const char* kFewerLayers = "pp * virtual stages > num_layers";
constexpr const char* kVirtual = "virtual stages need pp > 1";
constexpr const char* kBatch = "dp * micro_batch does not divide global_batch";
constexpr const char* kInterleaved = "interleaving needs num_microbatches >= pp";
constexpr const char* kOneChunk = "gpipe and 1f1b have one chunk per stage";
constexpr const char* kChunks = "interleaving needs virtual_stages >= 2";
constexpr const char* kStageCount = "stage_layers needs a number for each stage or chunk";
constexpr const char* kStageSum = "stage_layers does not add up to num_layers";
constexpr const char* kStageLeast = "a stage needs a layer for each of its chunks";
constexpr const char* kSplitStages = "zero-bubble schedules and dualpipe need pp > 1";
constexpr const char* kWholeStage = "zb-h1 and dualpipe have one chunk of the model per stage";
constexpr const char* kTwoChunks = "zb-v needs virtual_stages = 2";
constexpr const char* kEvenStages = "dualpipe needs an even pp";
constexpr const char* kBothEnds = "dualpipe needs an even num_microbatches >= 2 * pp";
constexpr const char* kDenseExperts = "ep > 1 needs an MoE model";
constexpr const char* kExperts = "ep does not divide num_experts";
constexpr const char* kExpertTensor = "etp does not divide tp";
constexpr const char* kExpertTokens = "etp != tp needs sequence parallelism";
constexpr const char* kExpertRanks = "etp * ep does not divide tp * dp * cp";
constexpr const char* kExpertLoad = "an expert cannot have less than its share";
constexpr const char* kExpertShard = "etp * ep does not divide tp * shard_size";
constexpr const char* kExpertFfn = "etp does not divide the width of an expert";
constexpr const char* kSharedFfn = "tp does not divide the width of a shared expert";
constexpr const char* kScanContext = "context parallelism of scans is not modelled";
constexpr const char* kHybridOverlap = "moe_overlap of hybrids is not offered";
constexpr const char* kHybridMuon = "muon of hybrids is not modelled";
constexpr const char* kShard = "shard_size does not divide dp * cp";
constexpr const char* kMeshOrder = "tp-cp-ep-pp-dp needs etp * ep = tp * cp";

// Layers to deal out: the embedding and the head count where the strategy says so.
int layers_to_divide(const Transformer& model, const Strategy& strategy) {
  return model.num_layers + (strategy.embeddings_as_layers ? 2 : 0);
}

std::int64_t product_of(int a, int b) { return static_cast<std::int64_t>(a) * b; }

// As a double, because four absurd sizes overflow an integer.
double mesh_product(const Strategy& s) { return static_cast<double>(s.dp) * s.tp * s.pp * s.cp; }

const char* broken_size(const Strategy& strategy) {
  const std::array<int, 8> sizes{strategy.dp,          strategy.tp,
                                 strategy.pp,          strategy.cp,
                                 strategy.ep,          strategy.virtual_stages,
                                 strategy.micro_batch, strategy.global_batch};
  for (const int size : sizes) {
    if (size < 1 || size > kLargestSize) return kPositive;
  }
  return nullptr;
}

// Devices of one pipeline stage.
std::int64_t stage_ranks(const Strategy& s) { return product_of(s.tp, s.cp) * s.dp; }

bool divide_each_other(std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; }

const char* broken_context(const Transformer& model, const Strategy& strategy) {
  if (!strategy.flash_attention) return kContextFlash;
  const std::int64_t ranks = product_of(strategy.cp, strategy.tp);
  if (strategy.cp_scheme == ContextScheme::AllToAll) {
    if (model.num_heads % ranks != 0) return kContextHeads;
    return divide_each_other(model.num_kv_heads, ranks) ? nullptr : kContextKvHeads;
  }
  return !model.encoder && strategy.cp_balanced && model.seq_len % product_of(2, strategy.cp) != 0
             ? kZigzag
             : nullptr;
}

const char* broken_experts(const Transformer& model, const Strategy& strategy) {
  const int ep = strategy.ep, tp = strategy.tp;
  if (!model.moe) return ep == 1 ? nullptr : kDenseExperts;
  const int etp = strategy.expert_tensor_ranks();
  if (etp < 1 || tp % etp != 0) return kExpertTensor;
  if (etp != tp && !strategy.sequence_parallel) return kExpertTokens;
  if (model.moe->expert_ffn_size % etp != 0) return kExpertFfn;
  if (model.moe->shared_expert_ffn_size % tp != 0) return kSharedFfn;
  if (model.moe->num_experts % ep != 0) return kExperts;
  if (stage_ranks(strategy) % product_of(ep, etp) != 0) return kExpertRanks;
  if (strategy.moe_imbalance.value_or(1.0) < 1.0 || strategy.moe_capacity.value_or(1.0) < 1.0)
    return kExpertLoad;
  return strategy.replicates_shards() &&
                 product_of(strategy.shard_size, tp) % product_of(ep, etp) != 0
             ? kExpertShard
             : nullptr;
}

const char* broken_hybrid(const Transformer& model, const Strategy& strategy) {
  if (!is_hybrid(model)) return nullptr;
  for (const ScanMixer& mixer : scan_mixers())
    if (mixer.is_given(model) && mixer.divided(model) % strategy.tp != 0) return mixer.divided_rule;
  if (has_scans(model) && strategy.cp > 1) return kScanContext;
  if (strategy.moe_overlap) return kHybridOverlap;
  return strategy.optimizer == OptimizerKind::Muon ? kHybridMuon : nullptr;
}

const char* broken_shape(const Transformer& model, const Strategy& strategy) {
  const int tp = strategy.tp;
  if (model.num_heads % tp != 0) return kHeads;
  if (!divide_each_other(model.num_kv_heads, tp)) return kKvHeads;
  if (model.ffn_size % tp != 0) return kFfn;
  const std::int64_t pieces = product_of(strategy.cp, strategy.sequence_parallel ? tp : 1);
  if (model.seq_len % pieces != 0) return kSequence;
  if (const char* rule = broken_hybrid(model, strategy)) return rule;
  return strategy.cp > 1 ? broken_context(model, strategy) : nullptr;
}

// Of the schedules that split backward passes (pipeline/stage_order.h).
const char* broken_split_schedule(const Strategy& strategy) {
  const bool vee = strategy.pipeline_schedule == PipelineSchedule::ZbV,
             both_ends = strategy.pipeline_schedule == PipelineSchedule::DualPipe;
  if (!vee && !both_ends && strategy.pipeline_schedule != PipelineSchedule::ZbH1) return nullptr;
  if (strategy.pp == 1) return kSplitStages;
  if (strategy.virtual_stages != (vee ? 2 : 1)) return vee ? kTwoChunks : kWholeStage;
  if (!both_ends) return nullptr;
  if (strategy.pp % 2 != 0) return kEvenStages;
  const int m = strategy.num_microbatches();
  return m % 2 != 0 || m < 2 * strategy.pp ? kBothEnds : nullptr;
}

// A schedule and its number of chunks must agree: neither overrides the other.
const char* broken_chunks(const Strategy& s) {
  const bool one = s.pipeline_schedule == PipelineSchedule::GPipe ||
                   s.pipeline_schedule == PipelineSchedule::OneForwardOneBackward;
  if (s.virtual_stages > 1 && one) return kOneChunk;
  return s.pipeline_schedule == PipelineSchedule::Interleaved && s.virtual_stages == 1 ? kChunks
                                                                                       : nullptr;
}

const char* broken_stage_layers(const Transformer& model, const Strategy& s) {
  if (s.stage_layers.empty()) return nullptr;
  const std::size_t given = s.stage_layers.size(), stages = static_cast<std::size_t>(s.pp);
  if (given != stages && given != stages * static_cast<std::size_t>(s.virtual_stages))
    return kStageCount;
  if (std::accumulate(s.stage_layers.begin(), s.stage_layers.end(), std::int64_t{0}) !=
      model.num_layers)
    return kStageSum;
  const int chunks = given == stages ? s.virtual_stages : 1;
  const bool head_alone = given > 1 && chunks == 1 && s.stage_layers.back() == 0;
  return *std::min_element(s.stage_layers.begin(), s.stage_layers.end() - (head_alone ? 1 : 0)) <
                 chunks
             ? kStageLeast
             : nullptr;
}

const char* broken_pipeline(const Transformer& model, const Strategy& strategy) {
  if (strategy.virtual_stages > layers_to_divide(model, strategy) / strategy.pp)
    return kFewerLayers;
  if (strategy.virtual_stages > 1 && strategy.pp == 1) return kVirtual;
  if (const char* rule = broken_chunks(strategy)) return rule;
  if (const char* rule = broken_stage_layers(model, strategy)) return rule;
  const std::int64_t replica_batch = product_of(strategy.dp, strategy.micro_batch);
  if (strategy.global_batch % replica_batch != 0) return kBatch;
  const bool interleaves =
      strategy.virtual_stages > 1 && strategy.pipeline_schedule != PipelineSchedule::ZbV;
  if (interleaves && strategy.num_microbatches() < strategy.pp) return kInterleaved;
  return broken_split_schedule(strategy);
}

// Stages lie between data ranks, so that experts must have as many of these as all else.
const char* broken_order(const Strategy& s) {
  return s.mesh_order == MeshOrder::DataLast && s.pp > 1 &&
                 product_of(s.expert_tensor_ranks(), s.ep) != product_of(s.tp, s.cp)
             ? kMeshOrder
             : nullptr;
}

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
           divide_each_other(model.num_kv_heads, t);
  });
}

// "tp = 3".
std::string equals(const std::string& name, std::int64_t value) {
  return name + " = " + std::to_string(value);
}

std::string mesh_message(const Strategy& s, int devices) {
  const std::string sizes = std::to_string(s.dp) + " * " + std::to_string(s.tp) + " * " +
                            std::to_string(s.pp) + " * " + std::to_string(s.cp);
  return "dp * tp * pp * cp = " + sizes + " = " + std::to_string(std::llround(mesh_product(s))) +
         ", but there are " + std::to_string(devices) + " devices" + mesh_advice(s, devices);
}

std::string divides_message(const std::string& name, std::int64_t value,
                            const std::string& whole_name, std::int64_t whole) {
  return equals(name, value) + " does not divide " + equals(whole_name, whole) +
         " (nearest: " + nearest_divisors(whole, value) + ")";
}

std::string tensor_message(const Transformer& model, const Strategy& s, const char* name,
                           int whole) {
  return equals("tp", s.tp) + " does not divide " + equals(name, whole) +
         " (nearest: " + nearest_tensor_ranks(model, s.tp) + ")";
}

std::string sequence_message(const Transformer& model, const Strategy& s) {
  if (!s.sequence_parallel) return divides_message("cp", s.cp, "seq_len", model.seq_len);
  return divides_message("cp * tp", product_of(s.cp, s.tp), "seq_len", model.seq_len);
}

std::string interleaved_message(const Strategy& s) {
  const std::int64_t batch = product_of(s.dp, s.micro_batch) * s.pp;
  return equals("num_microbatches", s.num_microbatches()) + " is less than " + equals("pp", s.pp) +
         ", which the interleaved schedule needs (nearest: " + equals("global_batch", batch) +
         ", or " + equals("pp", s.num_microbatches()) + ", or virtual_stages = 1)";
}

std::string layers_message(const Transformer& model, const Strategy& s) {
  const int layers = layers_to_divide(model, s);
  const std::string nearest = s.pp <= layers ? equals("virtual_stages", layers / s.pp)
                                             : equals("pp", std::max(1, layers / s.virtual_stages));
  return equals("pp * virtual_stages", product_of(s.pp, s.virtual_stages)) +
         " is more than the layers of the model, " + std::to_string(layers) +
         " (nearest: " + nearest + ")";
}

std::optional<std::string> hybrid_message(const char* rule, const Transformer& model,
                                          const Strategy& s) {
  for (const ScanMixer& mixer : scan_mixers())
    if (rule == mixer.divided_rule)
      return divides_message("tp", s.tp, std::string(mixer.divided_field()), mixer.divided(model));
  if (rule == kScanContext)
    return equals("cp", s.cp) +
           ": context parallelism of layers with states (all-to-alls of heads in Megatron-LM) is "
           "not modelled (nearest: cp = 1)";
  if (rule == kHybridOverlap)
    return "moe_overlap pairs passes over layers of attention and experts, which a hybrid's are "
           "not "
           "(nearest: moe_overlap off)";
  if (rule == kHybridMuon)
    return "optimizer = muon: its orthogonalisation of layers without attention is not modelled "
           "(nearest: adamw)";
  return std::nullopt;
}

std::optional<std::string> expert_message(const char* rule, const Transformer& model,
                                          const Strategy& s) {
  const std::int64_t etp = s.expert_tensor_ranks();
  const bool has_own_tensor_ranks = etp != s.tp;
  if (rule == kDenseExperts)
    return equals("ep", s.ep) + " needs an MoE model, which the model is not (nearest: ep = 1)";
  if (rule == kExperts) return divides_message("ep", s.ep, "num_experts", model.moe->num_experts);
  if (rule == kExpertTensor) return divides_message("etp", etp, "tp", s.tp);
  if (rule == kExpertTokens)
    return equals("etp", etp) + " is not " + equals("tp", s.tp) +
           ", which needs sequence parallelism: each tensor rank dispatches tokens of its own "
           "(nearest: etp = tp)";
  if (rule == kExpertLoad)
    return "moe_imbalance and moe_capacity are relative to the mean load: 1 or more";
  if (rule == kExpertFfn)
    return divides_message(has_own_tensor_ranks ? "etp" : "tp", etp, "moe.expert_ffn_size",
                           model.moe->expert_ffn_size);
  if (rule == kSharedFfn)
    return divides_message("tp", s.tp, "moe.shared_expert_ffn_size",
                           model.moe->shared_expert_ffn_size);
  if (rule != kExpertRanks && rule != kExpertShard) return std::nullopt;
  // With etp = tp both sides are tp times what people think in.
  const std::int64_t ranks = rule == kExpertRanks ? product_of(s.dp, s.cp) : s.shard_size;
  const std::string name = rule == kExpertRanks ? "dp * cp" : "shard_size";
  if (!has_own_tensor_ranks) return divides_message("ep", s.ep, name, ranks);
  return divides_message("etp * ep", etp * s.ep, "tp * " + name, ranks * s.tp);
}

// Nearest numbers of micro-batches that a DualPipe takes, as batches.
std::string both_ends_message(const Strategy& s) {
  const int m = s.num_microbatches(), least = 2 * s.pp;
  const std::int64_t each = product_of(s.dp, s.micro_batch);
  const std::string nearest =
      m < least ? std::to_string(least * each)
                : std::to_string((m - 1) * each) + " or " + std::to_string((m + 1) * each);
  return equals("num_microbatches", m) +
         ", but dualpipe feeds half of them into each end: an even number of at least " +
         equals("2 * pp", least) + " is needed (nearest: global_batch = " + nearest + ")";
}

// Of schedules and their chunks.
std::optional<std::string> chunks_message(const char* rule, const Transformer& model,
                                          const Strategy& s) {
  const std::string schedule = std::string("pipeline_schedule = ") + name_of(s.pipeline_schedule);
  const std::string virtual_stages = equals("virtual_stages", s.virtual_stages);
  std::string stage_layers = "stage_layers = [";
  for (const int layers : s.stage_layers)
    stage_layers += (stage_layers.back() == '[' ? "" : ", ") + std::to_string(layers);
  stage_layers += "]";
  if (rule == kOneChunk)
    return schedule + " has one chunk per stage, but " + virtual_stages +
           " (nearest: interleaved, or virtual_stages = 1)";
  if (rule == kChunks)
    return schedule + " needs several chunks per stage, but " + virtual_stages +
           " (nearest: 1f1b, or virtual_stages = 2)";
  if (rule == kStageCount)
    return stage_layers + " has " + std::to_string(s.stage_layers.size()) + " numbers, but " +
           equals("pp", s.pp) + " and " + virtual_stages;
  if (rule == kStageSum) {
    const std::int64_t sum =
        std::accumulate(s.stage_layers.begin(), s.stage_layers.end(), std::int64_t{0});
    return stage_layers + " adds up to " + std::to_string(sum) + ", but " +
           equals("num_layers", model.num_layers);
  }
  if (rule == kStageLeast)
    return stage_layers + ": each stage needs a layer for each of its chunks, " + virtual_stages +
           ", but for the chunk of the head";
  if (rule == kSplitStages) return schedule + " needs pp > 1, but pp = 1 (nearest: pp = 2)";
  if (rule == kWholeStage)
    return schedule + " has one chunk of the model per stage, but " + virtual_stages +
           " (nearest: virtual_stages = 1)";
  if (rule == kTwoChunks)
    return schedule + " has two chunks of the model per stage, but " + virtual_stages +
           " (nearest: virtual_stages = 2)";
  if (rule == kEvenStages)
    return schedule + " needs an even pp, but " + equals("pp", s.pp) +
           " (nearest: " + equals("pp", s.pp - 1) + " or " + std::to_string(s.pp + 1) + ")";
  if (rule == kBothEnds) return both_ends_message(s);
  if (rule == kVirtual)
    return virtual_stages + " needs pp > 1, but pp = 1 (nearest: virtual_stages = 1, or pp = 2)";
  return std::nullopt;
}

std::string message_for(const char* rule, const Transformer& model, const Strategy& s,
                        int devices) {
  if (rule == kMesh) return mesh_message(s, devices);
  if (rule == kHeads) return tensor_message(model, s, "num_heads", model.num_heads);
  if (rule == kFfn) return tensor_message(model, s, "ffn_size", model.ffn_size);
  if (rule == kKvHeads) return tensor_message(model, s, "num_kv_heads", model.num_kv_heads);
  if (rule == kSequence) return sequence_message(model, s);
  const std::int64_t context = product_of(s.cp, s.tp);
  if (rule == kContextHeads)
    return divides_message("cp * tp", context, "num_heads", model.num_heads);
  if (rule == kContextKvHeads)
    return divides_message("cp * tp", context, "num_kv_heads", model.num_kv_heads);
  if (rule == kZigzag)
    return divides_message("2 * cp", 2 * std::int64_t{s.cp}, "seq_len", model.seq_len);
  if (rule == kContextFlash)
    return equals("cp", s.cp) + " needs flash attention: kernels that return partial results";
  if (rule == kBatch)
    return divides_message("dp * micro_batch", product_of(s.dp, s.micro_batch), "global_batch",
                           s.global_batch);
  if (rule == kShard)
    return divides_message("shard_size", s.shard_size, "dp * cp", product_of(s.dp, s.cp));
  if (rule == kMeshOrder)
    return std::string("mesh_order = ") + name_of(s.mesh_order) +
           " puts stages between data ranks, of which experts and all else must have as many: " +
           equals("etp * ep", product_of(s.expert_tensor_ranks(), s.ep)) + ", but " +
           equals("tp * cp", product_of(s.tp, s.cp)) +
           " (nearest: mesh_order = " + name_of(MeshOrder::PipelineLast) + ")";
  if (rule == kInterleaved) return interleaved_message(s);
  if (rule == kFewerLayers) return layers_message(model, s);
  if (const std::optional<std::string> message = expert_message(rule, model, s)) return *message;
  if (const std::optional<std::string> message = hybrid_message(rule, model, s)) return *message;
  if (const std::optional<std::string> message = chunks_message(rule, model, s)) return *message;
  return "every size of the mesh and of the batch must be from 1 to " +
         std::to_string(kLargestSize);
}

}  // namespace

const char* broken_rule_name(const Transformer& model, const Strategy& strategy, int num_devices) {
  if (const char* rule = broken_size(strategy)) return rule;
  if (mesh_product(strategy) != num_devices) return kMesh;
  if (const char* rule = broken_shape(model, strategy)) return rule;
  if (const char* rule = broken_pipeline(model, strategy)) return rule;
  if (strategy.sharding == Sharding::Hsdp || strategy.shard_size > 0) {
    const std::int64_t ranks = product_of(strategy.dp, strategy.cp);
    if (strategy.shard_size < 1 || ranks % strategy.shard_size != 0) return kShard;
  }
  if (const char* rule = broken_experts(model, strategy)) return rule;
  return broken_order(strategy);
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
  const char* rule = broken_rule_name(model, strategy, cluster.num_devices);
  if (rule == nullptr) return std::nullopt;
  return Infeasible{.rule = rule,
                    .message = message_for(rule, model, strategy, cluster.num_devices)};
}

}  // namespace llmsim::sim
