// The strategies that a search tries, as a tree: layouts, each with its pipelines, its shardings
// and its recompute policies.
//
//   layout       tp, pp, cp, dp over all divisors of the devices (cp: powers of two that leave a
//                rank kContextTokens of a sequence); micro-batches of up to kMaxMicroBatch
//                sequences, of short ones kMaxMicroBatchTokens, that divide the batch; expert ranks
//                over all divisors of the experts that the ranks can share out, experts divided as
//                the rest of the model or whole; with tensor ranks sequence parallelism or not;
//                where the framework can, their collectives overlapped with GEMMs or not (of ranks
//                that one fabric joins), tokens sent to experts once to each rank and node or row
//                by row, overlapped with the other pass of another micro-batch or not
//   pipeline     1F1B, and interleaved with every number of virtual stages; layers are divided
//                evenly, or the embedding and the head count as one each, or the head takes the
//                place of layers of the last stage: with p v chunks of L layers each other one has
//                floor(L / (p v)) + 1, or the head counts as n layers, for each n from 2 to what it
//                is as many FLOPs as (kMostHeadLayers), of the last stage and of its last chunk,
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
// Left out: GPipe, which takes as long as 1F1B and holds more; schedules that split backward passes
// unless they are asked for, and DualPipe unless the framework's record has it, because few do;
// layers divided by hand.  Offload, overlap of data ranks and precision are those of the base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/search/searched_fields.h"

namespace llmsim::sim {

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
  // Numbers as in the table of searched fields, by its rows.
  using Lists = std::vector<std::vector<std::int64_t>>;

  // Calls visit(choice) for all values of the fields of a level from a row on.
  template <class Visit>
  void choose(SearchLevel level, std::size_t row, SearchChoice& choice, const Visit& visit) const;
  std::vector<std::int64_t> values(std::size_t row, const SearchChoice& so_far) const;
  const std::vector<std::int64_t>& requested(std::string_view key) const;
  // Whether no field of a level has a value that is excluded, or another than those it is
  // filtered by.
  bool is_allowed(SearchLevel level, const Strategy& strategy) const;
  void add_pipelines(std::vector<SearchPipeline>& list, PipelineSchedule schedule, int pp,
                     int virtual_stages) const;
  void add_short_last_chunks(std::vector<SearchPipeline>& list, const SearchPipeline& even,
                             int pp) const;

  const SearchBase& base_;
  Lists requested_, excluded_;  // none: whatever makes sense
  bool filters_ = false;        // some values
  std::vector<Recompute> recomputes_;
};

// Calls `visit` with one strategy after the other.
void for_each_strategy(const SearchBase& base, const Restriction& restriction,
                       const std::function<void(const Strategy&)>& visit);

}  // namespace llmsim::sim
