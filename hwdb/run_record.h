// Run records: training runs as people write them down, and what makes simulator input of them.
//
// A record is the JSON of one run: what was trained, on what, how, and (in a measured run) what came out.  The schema is
// described in tests/validation/runs/README.md.  Every part is optional when read; null means unknown.  RunResolver
// (run_resolver.h) fills what is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// Units are SI and the names those of the schema.
struct RecordedModel {
  std::optional<std::string> name, architecture;
  std::optional<int> num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_size, vocab_size, seq_len;
  std::optional<bool> gated_mlp, tied_embeddings, bias, parallel_block;
  std::optional<std::string> norm, position;
  std::optional<int> sliding_window;
  // Details that most records leave to the family or the catalogue.
  std::optional<sim::Biases> biases;
  std::optional<bool> norm_weight, final_norm, embedding_norm, attention_sinks;
  std::optional<std::string> qk_norm;  // "none", "per-head", "all-heads"
  std::optional<int> norms_per_layer, max_positions, sliding_window_interval;
  std::optional<sim::Moe> moe;
  std::optional<bool> router_bias, expert_bias, shared_expert_gate;  // keys of moe
  std::optional<sim::Mla> mla;
  std::optional<sim::Encoder> encoder;
  std::optional<int> mtp_layers;
  std::optional<std::int64_t> num_parameters;
  std::optional<std::string> trainable;  // "all", "lora", "adapter"
  std::optional<int> lora_rank;
  std::vector<std::string> lora_targets;
};

// Every key of a model, so that it is read back as it is.
RecordedModel recorded(const sim::Transformer& model);

struct RecordedHardware {
  std::optional<std::string> accelerator, system;
  std::optional<int> num_devices, devices_per_node;
  std::optional<double> inter_node_bytes_per_s_per_device;  // one direction
  std::optional<std::string> transport;                     // "rdma", "sockets"
  std::optional<std::string> collective_algorithm;          // "auto", "ring", "tree", "hierarchical"
};

struct RecordedRecompute {
  std::optional<std::string> kind{};
  std::optional<int> every_n{};
  std::optional<int> share{};           // every_n: blocks of every `every_n` that are recomputed
  std::optional<int> blocks{};          // full: of each model chunk, the first so many; none: all
  std::vector<std::string> modules{};   // selective: sim/strategy/recompute.h; empty: the core of attention
  std::optional<std::string> saved{};   // op: GEMMs whose outputs are saved: "every-second", "all", "qkv"
  std::optional<std::string> detail{};  // free text
};

struct RecordedOffload {
  std::optional<bool> optimizer, parameters, activations;
  std::vector<std::string> modules{};  // whose inputs are offloaded (sim/strategy/offload.h); empty: of all that is kept
  std::optional<int> blocks{};         // of each stage that offload their activations
};

struct RecordedTraining {
  std::optional<std::string> framework, framework_version, framework_detail, precision, precision_detail, optimizer;
  std::optional<int> micro_batch;       // sequences per forward pass of one replica
  std::optional<int> global_batch;      // sequences per optimizer step
  std::optional<int> num_microbatches;  // forward passes of one replica per optimizer step
  std::optional<int> dp, tp, pp, cp, ep, virtual_stages;
  std::optional<std::string> pipeline_schedule, sharding;
  std::optional<std::string> cp_scheme;  // "ring", "all-gather", "all-to-all"
  std::optional<bool> cp_balanced;       // zigzag order
  // Experts: ranks that divide each; what carries tokens; whether that hides behind compute; rows of the busiest rank and of an
  // expert relative to the mean (sim/strategy/expert_strategy.h).
  std::optional<int> etp;
  std::optional<std::string> moe_dispatch;
  std::optional<bool> moe_overlap, moe_captured;
  std::optional<double> moe_imbalance, moe_capacity;
  std::optional<int> shard_size, replicate_size;
  std::optional<bool> embeddings_as_layers;  // the embedding and the LM head each count as a layer
  std::vector<int> stage_layers;             // transformer layers of each pipeline stage; empty: even
  std::optional<bool> sequence_parallel, flash_attention, compile, fused_cross_entropy, tp_overlap, cuda_graph;
  std::optional<bool> gradient_overlap, gather_overlap, dp_overlap;  // the last: both, where one of them is not said
  sim::SettingValues settings;                                       // of the training program: settings.h
  std::optional<RecordedRecompute> recompute;
  RecordedOffload offload;
};

// What came out.  Reported rates are kept as printed; only times, bytes and outcomes are compared with predictions.
struct Measured {
  std::optional<sim::Seconds> step_time;
  std::optional<std::string> step_time_derived_from;
  std::optional<double> tokens_per_second_per_device, reported_tflops_per_device, reported_mfu, reported_hfu;
  std::optional<std::string> flops_convention;
  std::optional<sim::Bytes> peak_memory;
  std::optional<std::string> memory_kind;   // "allocated", "reserved", "device"
  std::optional<std::string> memory_scope;  // "max-rank", "last-stage", "first-or-last-stage"
  std::optional<std::string> outcome;       // "ok", "oom", "crash", "flaky", "feasible"
};

// Whether a figure is exact and complete enough to score a prediction by.
struct Scored {
  bool step_time = false;
  bool memory = false;
  bool outcome = false;
};

struct RunRecord {
  std::string file;
  std::string id;
  std::string group;
  std::optional<std::string> source, date, notes;  // date: "YYYY-MM-DD"
  std::optional<double> noise;                     // relative spread stated by the source
  RecordedModel model;
  RecordedHardware hardware;
  RecordedTraining training;
  std::optional<Measured> measured;
  Scored scored;
};

// A run that could not be read, with the one-line reason.
struct RejectedRun {
  std::string id;
  std::string reason;
};

struct RunFile {
  std::string file;
  std::string group;
  std::string description;
  std::vector<RunRecord> runs;
  std::vector<RejectedRun> rejected;  // runs with an unknown key, a wrong type or an unknown value
};

// Free text (notes, source, framework_detail, precision_detail, recompute.detail, ...) is kept to be printed; nothing reads it.
//
// Runs of the JSON in `text`: {"schema": 2, "group": ..., "runs": [...]}, or one run alone.  Throws Error where the text is no
// such JSON (with file and line); a run with a mistake is put into `rejected` and the others are read.  `file` names it in
// messages.
RunFile parse_runs(const std::string& text, const std::string& file);

// The same for a file.  Throws Error where it cannot be read.
RunFile read_runs(const std::string& path);

// The only run of a file.  Throws Error where the run is rejected, or the file has none or several.
RunRecord read_run(const std::string& path);

}  // namespace llmsim::hwdb
