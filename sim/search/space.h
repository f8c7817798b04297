// The strategies that a search tries, as a tree: layouts, each with its pipelines, its shardings
// and the ways to recompute.
//
//   layout       tp, pp, cp, dp over all divisors of the devices (cp: powers of two that leave a
//                rank kContextTokens of a sequence); micro-batches of up to kMaxMicroBatch
//                sequences, of short ones kMaxMicroBatchTokens, that divide the batch; expert ranks
//                over all divisors of the experts that the ranks can share out, experts divided as
//                the rest of the model or whole; with tensor ranks sequence parallelism or not;
//                where the framework can, their collectives beside GEMMs or not (of ranks that one
//                fabric joins), tokens sent to experts once to each rank and node or row by row,
//                beside the other pass of another micro-batch or not
//   pipeline     1F1B, and interleaved with every number of virtual stages; layers are dealt
//                evenly, or the embedding and the head count as one each, or the head takes the
//                place of layers of the last stage: with p v parts of L layers each other one has
//                floor(L / (p v)) + 1, or the head counts as n layers, for each n from 2 to what it
//                is as many FLOPs as (kMostHeadLayers), of the last stage and of its last part,
//                which may be the head's alone
//   sharding     none and what the framework has, without pipelines and in them, of ZeRO-1, ZeRO-2,
//                ZeRO-3 and HSDP over every true divisor of the ranks; where the framework can, the
//                data ranks outside of the pipelines too (MeshOrder), unless both are of single
//                ranks, or no two stages and no two data ranks would share a domain
//   recompute    none, selective, full, every second and fourth block, the first one to four blocks
//                of each chunk, and modules that cost little: norms, activation functions, both,
//                and of MLA the projections up; where the framework can, all operators but GEMMs
//
// Or the values that the search is restricted to.  Whether a member keeps the rules of a layout is
// asked later (strategy/validity.h).
//
// Left out: GPipe, which takes as long as 1F1B and holds more; zero-bubble schedules unless they
// are asked for, and DualPipe unless the framework's record has it, because few do; layers dealt by hand; offload,
// overlap of data ranks and precision, which are those of the base.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/field.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// The fields that a search chooses; recompute is one as a whole.
inline constexpr std::array<std::string_view, 14> kSearchedFields{"tp",
                                                                  "pp",
                                                                  "dp",
                                                                  "cp",
                                                                  "ep",
                                                                  "micro_batch",
                                                                  "virtual_stages",
                                                                  "pipeline_schedule",
                                                                  "sharding",
                                                                  "mesh_order",
                                                                  "recompute",
                                                                  "tp_overlap",
                                                                  "moe_dispatch",
                                                                  "moe_overlap"};

// Fields that follow from the way of a search: they can be restricted, and are not asked for by
// lists of their own.
inline constexpr std::array<std::string_view, 3> kDerivedFields{
    "sequence_parallel", "embeddings_as_layers", "shard_size"};

// The values that a search may give to fields of a strategy, by key, of both lists; "recompute" as
// people type it (text_of(Recompute)).
using Restriction = std::map<std::string, std::vector<FieldValue>>;

inline constexpr std::array<Sharding, 5> kAllShardings{
    Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp};

inline std::size_t index_of(Sharding sharding) { return static_cast<std::size_t>(sharding); }

// What a search starts from: all that it does not choose is as in these.
struct SearchBase {
  const Transformer& model;
  int num_devices;
  Strategy strategy;
  // By Sharding: with what the framework does there.
  std::array<Strategy, kAllShardings.size()> under;
  FrameworkOffers offers{};
  Restriction excluded{};  // values that no strategy of the search has, also of etp
  // Devices that one fabric joins: buffers that GEMMs share reach no further.
  int fabric_devices = std::numeric_limits<int>::max();
  int domain_devices = std::numeric_limits<int>::max();  // that share a node, or such a fabric
};

// Everything that decides the prices of layers.
struct SearchLayout {
  int tp = 1, pp = 1, cp = 1, dp = 1;
  int micro_batch = 1;
  int ep = 1;
  int etp = 0;  // 0: not stated, as many as tp
  bool sequence_parallel = false;
  bool tp_overlap = false;
  ExpertDispatch moe_dispatch = ExpertDispatch::AllToAll;
  bool moe_overlap = false;
};

struct SearchPipeline {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int virtual_stages = 1;
  bool embeddings_as_layers = false;
  // Of each part, where the head takes the place of some; empty: they are dealt evenly.
  std::vector<int> part_layers{};
};

// What data ranks share, and where they are.
struct SearchSharding {
  Sharding sharding = Sharding::None;
  int shard_size = 0;
  MeshOrder mesh_order = MeshOrder::PipelineLast;
};

class SearchSpace {
 public:
  // Throws Error for a value of the restriction that its field cannot have, and where no way to
  // recompute is left.  `base` must outlive the space.
  SearchSpace(const SearchBase& base, const Restriction& restriction);

  std::vector<SearchLayout> layouts() const;
  std::vector<SearchPipeline> pipelines(int pp) const;
  std::vector<SearchSharding> shardings(const SearchLayout& layout) const;
  const std::vector<Recompute>& recomputes() const { return recomputes_; }
  // Whether the framework can have both: passes of experts' tokens that overlap take whole passes
  // of several micro-batches in turn (FrameworkOffers::moe_overlap).
  bool go_together(const SearchLayout& layout, const SearchPipeline& pipeline) const;
  bool go_together(const SearchLayout& layout, const Recompute& recompute) const;

  Strategy strategy(const SearchLayout& layout, const SearchPipeline& pipeline,
                    const SearchSharding& sharding, const Recompute& recompute) const;

 private:
  // What the search is restricted to, by field; none: everything that makes sense.
  struct Asked {
    std::vector<int> tp, pp, cp, ep, dp, micro_batch, virtual_stages;
    std::vector<PipelineSchedule> pipeline_schedule;
    std::vector<Sharding> sharding;
    std::vector<MeshOrder> mesh_order;
    std::vector<bool> tp_overlap, moe_overlap;
    std::vector<ExpertDispatch> moe_dispatch;
  };

  void add_meshes(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_experts(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_expert_ranks(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_sequence_parallelism(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_tensor_overlap(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_dispatch(std::vector<SearchLayout>& list, SearchLayout layout) const;
  void add_expert_overlap(std::vector<SearchLayout>& list, SearchLayout layout) const;
  int expert_tensor_ranks(const SearchLayout& layout) const;
  std::vector<MeshOrder> mesh_orders(const SearchLayout& layout) const;
  // Whether the fields named in `keys` have values that are neither excluded nor, of derived ones,
  // others than those asked for.
  bool is_allowed(const Strategy& strategy, std::span<const std::string_view> keys) const;
  void add_pipelines(std::vector<SearchPipeline>& list, PipelineSchedule schedule, int pp,
                     int virtual_stages) const;
  void add_short_ends(std::vector<SearchPipeline>& list, const SearchPipeline& even, int pp) const;

  const SearchBase& base_;
  Restriction derived_;  // of the restriction, kDerivedFields
  Asked asked_;
  std::vector<Recompute> recomputes_;
};

// Calls `visit` with one strategy after the other.
void for_each_strategy(const SearchBase& base, const Restriction& restriction,
                       const std::function<void(const Strategy&)>& visit);

}  // namespace llmsim::sim
