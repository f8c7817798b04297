#include "sim/search/complete_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/memory/chunk_layers.h"
#include "sim/memory/chunk_passes.h"
#include "sim/memory/footprint.h"
#include "sim/memory/stage_bytes.h"
#include "sim/pipeline/repeating_pipeline.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/stage_work.h"
#include "sim/schedule/step.h"
#include "sim/search/part_index.h"
#include "sim/search/price_table.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {

namespace {

// Sums of the same bytes in two orders differ by less than this share.
constexpr double kBytesRounding = 1e-9;

}  // namespace

// Values that are worked out when they are first asked for.
template <class Value>
class KnownValues {
 public:
  void forget(std::size_t count) { values_.resize(count), known_.assign(count, false); }
  template <class Make>
  Value& of(std::size_t place, const Make& make) {
    if (!known_[place]) values_[place] = make(), known_[place] = true;
    return values_[place];
  }

 private:
  std::vector<Value> values_;
  std::vector<char> known_;
};

// What a pass leaves and rises by.
struct PartBytes {
  double left = 0.0, forward_rise = 0.0, backward_rise = 0.0;
  // The forward pass gives nothing back, and the backward pass what that has left.
  bool comes_and_goes = false;
};

namespace {

double most_activations(const std::vector<HeldPasses>& most, const IndexedStages& stages,
                        std::span<const PartBytes* const> parts) {
  double peak = 0.0;
  for (const HeldPasses& held : most) {
    const PartBytes& own = *parts[held.part];
    double sum = held.backward ? own.backward_rise : own.forward_rise;
    for (std::size_t part = 0; part < stages.parts.size(); ++part)
      sum += held.passes[part] * parts[part]->left;
    peak = std::max(peak, sum);
  }
  return peak;
}

}  // namespace

// What lasts on a stage, and what comes on top of it.
struct StageStates {
  bool has_closed_form = false;
  double idle = 0.0, gathered = 0.0, update = 0.0, temporaries = 0.0;
};

namespace {

StageStates stage_states(const Run& run, const StageBytes& bytes) {
  const bool in_groups = run.framework.update.parameters_at_once > 0.0;
  return {.has_closed_form = !pass_rules(run, bytes, 1).gradients_come_and_go(),
          .idle = lasting_terms(bytes, run.framework).total().value(),
          .gathered = bytes.gathered.value(),
          .update = (bytes.main_gradients + bytes.temporaries).value(),
          .temporaries = in_groups ? 0.0 : bytes.temporaries.value()};
}

}  // namespace

// A sharding of the layout at hand.
struct ShardedLayout {
  SearchSharding choice;
  std::size_t base = 0;
  const char* rule = nullptr;
  Run run;
  std::optional<DataParallelCollectives> collectives{};
  struct Exchanged {
    PartExchange exchange{};
    FirstForward<TermSums> forward{};
  };
  KnownValues<Exchanged> exchanges{};                      // by part
  KnownValues<PartStep<TermSums>> steps{};                 // by way, part
  KnownValues<StageStates> states{};                       // by IndexedStages::sum
  KnownValues<std::vector<StepEnds::Closing>> closings{};  // by IndexedStages::sum
  Seconds forward_transfer{}, backward_transfer{};
  Seconds norm{};
  bool has_closed_form = false;
};

class CompleteSearch::Layouts {
 public:
  Layouts(const PlanProblem& problem, CompleteTimes times)
      : problem_(problem), times_(times), prices_(problem), index_(problem) {}

  using Visit = std::function<void(const CompleteStrategy&)>;
  void search(const LayoutGroup& group, const Visit& visit) {
    for (const LayoutRange& variant : group.variants) {
      prices_.forget();
      bytes_.resize(2 * problem_.bases.size());
      for (KnownValues<PartBytes>& bytes : bytes_) bytes.forget(index_.parts().size() * ways());
      for (std::size_t i = variant.first; i < variant.last; ++i) search(problem_.layouts[i], visit);
    }
  }

 private:
  // Of the pipeline at hand, what is left to do for a strategy whose memory is known.
  struct Pending {
    std::size_t sharding = 0, way = 0, events = 0;
    Bytes peak{}, needed{};
    bool fits = false;
  };
  // Events, and the strategies that have them: when the last of each kind of stage ends.
  struct Events {
    std::size_t way = 0;
    Seconds forward_transfer{}, backward_transfer{};
    std::vector<ChunkTimes> times{};  // by IndexedPipeline::distinct
    std::vector<Seconds> ends{};      // by IndexedPipeline::stages
  };

  std::size_t ways() const { return problem_.space.recomputes().size(); }
  Strategy strategy(std::size_t sharding, std::size_t way) const {
    return problem_.space.strategy(*layout_, pipeline_->dealt->choice, shardings_[sharding].choice,
                                   problem_.space.recomputes()[way]);
  }

  void search(const SearchLayout& layout, const Visit& visit) {
    if (broken_layout(problem_, layout)) return;
    layout_ = &layout;
    begin_layout();
    for (IndexedPipeline& pipeline : index_.pipelines(layout.pp)) {
      if (!problem_.space.go_together(layout, pipeline.dealt->choice)) continue;
      pipeline_ = &pipeline;
      search_pipeline(visit);
    }
  }

  void begin_layout() {
    const std::vector<SearchSharding> choices = problem_.space.shardings(*layout_);
    num_shardings_ = choices.size();
    while (shardings_.size() < num_shardings_) shardings_.emplace_back();
    ends_.resize(shardings_.size());
    for (std::size_t i = 0; i < num_shardings_; ++i) begin(shardings_[i], choices[i]);
  }

  void begin(ShardedLayout& own, const SearchSharding& choice) {
    own.choice = choice;
    own.base = problem_.bases[index_of(choice.sharding)].prices;
    own.collectives.reset();
    own.run = prices_.run_of(problem_.space.strategy(*layout_, {.embeddings_as_layers = true},
                                                     choice, problem_.space.recomputes().front()));
    own.rule = broken_in_all_pipelines(problem_, own.run.strategy);
    if (own.rule) return;
    rank_ = rank_parameters(own.run.model, own.run.strategy);
    context_ = context_memory(own.run);
    own.collectives.emplace(own.run, rank_);
    own.exchanges.forget(index_.parts().size());
    own.steps.forget(index_.parts().size() * ways());
    own.states.forget(index_.stages());
    own.closings.forget(index_.stages());
    own.norm = own.collectives->norm_time();
    const StageTransfers transfers = overlapped_transfers(own.run);
    own.forward_transfer = transfers.forward, own.backward_transfer = transfers.backward;
    own.has_closed_form = may_have_closed_form(own.run);
  }

  static bool may_have_closed_form(const Run& run) {
    const Offload& offload = run.strategy.offload;
    const UnitRules units = unit_rules(run.strategy, run.framework);
    return run.framework.autograd && run.framework.gradients.persist && !units.freed &&
           !offload.activations && !offload.optimizer && !offload.parameters &&
           run.framework.host_load_bytes <= 0.0;
  }

  void search_pipeline(const Visit& visit) {
    const SearchPipeline& choice = pipeline_->dealt->choice;
    const Strategy plain =
        problem_.space.strategy(*layout_, choice, {}, problem_.space.recomputes().front());
    if (broken_rule_name(problem_.base.model, plain, problem_.base.num_devices)) return;
    shape_ = pipeline_shape(plain);
    pending_.clear(), num_events_ = 0;
    held_ = nullptr;
    contents_.reset();
    for (std::size_t i = 0; i < num_shardings_; ++i) {
      if (!shardings_[i].rule) search_sharding(i, visit);
    }
    for (std::size_t i = 0; i < num_events_; i += kLanes)
      simulate(std::span(events_).subspan(i, std::min(kLanes, num_events_ - i)));
    for (const Pending& one : pending_) visit(complete(one, finished(one)));
  }

  CompleteStrategy complete(const Pending& one, Seconds time) const {
    return {.layout = *layout_,
            .pipeline = pipeline_->dealt->choice,
            .sharding = shardings_[one.sharding].choice,
            .recompute = one.way,
            .peak = one.peak,
            .needed = one.needed,
            .fits = one.fits,
            .time = time};
  }

  void search_sharding(std::size_t number, const Visit& visit) {
    ShardedLayout& sharding = shardings_[number];
    sharding.run.strategy = strategy(number, 0);
    // Chunks of a stage share out the blocks that offload.
    if (sharding.run.strategy.offload.activations)
      sharding.steps.forget(index_.parts().size() * ways());
    if (!contents_) contents_.emplace(sharding.run);
    const bool repeats = passes_repeat(shape_.schedule);
    const bool is_closed = repeats && sharding.has_closed_form && has_closed_form(sharding);
    if (repeats) ends_[number] = step_ends(sharding);
    for (std::size_t way = 0; way < ways(); ++way) {
      if (!problem_.space.go_together(*layout_, problem_.space.recomputes()[way])) continue;
      sharding.run.strategy.recompute = problem_.space.recomputes()[way];
      const LayoutPrices& prices =
          prices_.of(*layout_, shape_, sharding.base, way, [&] { return strategy(number, way); });
      Pending one{.sharding = number, .way = way};
      one.fits = is_closed ? memory(one, sharding, prices) : walk(one, sharding, prices);
      if (!one.fits && times_ == CompleteTimes::OfFitting) {
        visit(complete(one, Seconds(0.0)));
      } else if (!repeats) {
        visit(complete(one, step_time(sharding.run, *prices.layers)));
      } else {
        one.events = events_of(sharding, way, prices);
        pending_.push_back(one);
      }
    }
  }

  // Works out the states of all stages, and whether their activations have a closed form.
  bool has_closed_form(ShardedLayout& sharding) {
    states_.clear();
    for (const IndexedStages& stages : pipeline_->stages) {
      if (stages.parts.size() > kMostPartKinds) return false;
      states_.push_back(sharding.states.of(stages.sum, [&] {
        return stage_states(sharding.run, stage_bytes(sharding.run, *contents_, stages.first));
      }));
      if (!states_.back().has_closed_form) return false;
    }
    if (!held_) held_ = &pipeline_->held(shape_);
    return true;
  }

  StepEnds step_ends(ShardedLayout& sharding) {
    return {.straggler = straggler_share(sharding.run.cluster),
            .update = longest_update(sharding.run, rank_, pipeline_->dealt->counts->stages()),
            .norm = sharding.norm,
            .host = sharding.run.framework.host.per_step};
  }

  bool walk(Pending& one, const ShardedLayout& sharding, const LayoutPrices& prices) const {
    const Memory memory =
        memory_footprint(sharding.run, *prices.layers, *contents_, MemoryStages::Fullest);
    one.peak = memory.peak, one.needed = memory.needed();
    return memory.fits() && memory.host.fits();
  }

  // In closed form.
  bool memory(Pending& one, ShardedLayout& sharding, const LayoutPrices& prices) {
    const MemoryReserve& reserve = sharding.run.framework.reserve;
    double peak = -1.0, lost = 0.0;
    for (std::size_t i = 0; i < pipeline_->stages.size(); ++i) {
      const IndexedStages& stages = pipeline_->stages[i];
      std::array<const PartBytes*, kMostPartKinds> parts;
      bool come_and_go = true;
      for (std::size_t part = 0; part < stages.parts.size(); ++part) {
        parts[part] = &bytes_of(sharding, one.way, stages.parts[part].id, prices);
        come_and_go = come_and_go && parts[part]->comes_and_goes;
      }
      if (!come_and_go) return walk(one, sharding, prices);
      const StageStates& states = states_[i];
      const double passes =
          states.idle + states.gathered + most_activations((*held_)[i], stages, parts);
      const bool in_update = states.idle + states.update > passes;
      const double own = in_update ? states.idle + states.update : passes;
      if (own <= peak) continue;
      peak = own;
      lost = std::max(0.0, (reserve.reserved_per_byte() - 1.0) *
                               (own - states.idle - (in_update ? states.temporaries : 0.0)));
    }
    one.peak = Bytes(peak);
    one.needed = Bytes(peak) + Bytes(reserve.unrecoverable_gaps * lost) + context_;
    return one.needed <= sharding.run.cluster.device.usable_memory;
  }

  const PartBytes& bytes_of(const ShardedLayout& sharding, std::size_t way, PartId id,
                            const LayoutPrices& prices) {
    // The head of a pipeline has no table beside it.
    return bytes_[2 * sharding.base + (layout_->pp > 1 ? 1 : 0)].of(
        way * index_.parts().size() + id, [&] {
          const Chunk layers =
              chunk_layers(sharding.run, *prices.layers, rank_, index_.parts()[id]);
          const PassRules rules = pass_rules(sharding.run, {}, 1);
          const ChunkPass<double> forward = forward_pass<double>(layers, rules, {}),
                                  backward = backward_pass<double>(layers, rules, {}, {});
          return PartBytes{
              .left = forward.net,
              .forward_rise = forward.rise().amount,
              .backward_rise = backward.rise().amount,
              .comes_and_goes = forward.net >= 0.0 && std::abs(forward.net + backward.net) <=
                                                          kBytesRounding * forward.net};
        });
  }

  const PartStep<TermSums>& step_of(ShardedLayout& sharding, std::size_t way, PartId id,
                                    const LayoutPrices& prices) {
    return sharding.steps.of(way * index_.parts().size() + id, [&] {
      const ModelChunk& part = index_.parts()[id];
      ShardedLayout::Exchanged& exchanged = sharding.exchanges.of(id, [&] {
        return ShardedLayout::Exchanged{
            .exchange = part_exchange(sharding.run, *sharding.collectives, rank_, part)};
      });
      return part_step(part_passes<TermSums>(sharding.run, *prices.layers, *sharding.collectives,
                                             rank_, part, exchanged.exchange, &exchanged.forward),
                       shape_.num_microbatches);
    });
  }

  std::size_t events_of(ShardedLayout& sharding, std::size_t way, const LayoutPrices& prices) {
    if (layout_->pp == 1) {
      step_of(sharding, way, pipeline_->parts.front(), prices);
      return 0;
    }
    if (num_events_ == events_.size()) events_.emplace_back();
    Events& own = events_[num_events_];
    own.way = way;
    own.forward_transfer = sharding.forward_transfer;
    own.backward_transfer = sharding.backward_transfer;
    own.times.clear();
    for (const PartId id : pipeline_->distinct)
      own.times.push_back(step_of(sharding, way, id, prices).times);
    for (std::size_t i = 0; i < num_events_; ++i) {
      if (are_same(events_[i], own)) return i;
    }
    return num_events_++;
  }

  static bool are_same(const Events& one, const Events& other) {
    return one.way == other.way && one.forward_transfer == other.forward_transfer &&
           one.backward_transfer == other.backward_transfer &&
           std::equal(one.times.begin(), one.times.end(), other.times.begin(),
                      [](const ChunkTimes& a, const ChunkTimes& b) {
                        return a.forward == b.forward && a.backward == b.backward;
                      });
  }

  // Side by side; lanes that are left over repeat the first.
  void simulate(std::span<Events> all) {
    LaneTimes forward, backward;
    lanes_.resize(pipeline_->distinct.size());
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Events& own = all[lane < all.size() ? lane : 0];
      forward.seconds[lane] = own.forward_transfer.value();
      backward.seconds[lane] = own.backward_transfer.value();
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        lanes_[i].forward.seconds[lane] = own.times[i].forward.value();
        lanes_[i].backward.seconds[lane] = own.times[i].backward.value();
      }
    }
    lanes_of_parts_.clear();
    for (const std::size_t place : pipeline_->places) lanes_of_parts_.push_back(lanes_[place]);
    const std::vector<LaneTimes> finish =
        repeating_pipeline_ends(shape_, forward, backward, lanes_of_parts_);
    for (std::size_t lane = 0; lane < all.size(); ++lane) {
      all[lane].ends.clear();
      for (const IndexedStages& stages : pipeline_->stages) {
        double last = 0.0;
        for (int stage = stages.first; stage <= stages.last; ++stage)
          last = std::max(last, finish[static_cast<std::size_t>(stage)].seconds[lane]);
        all[lane].ends.push_back(Seconds(last));
      }
    }
  }

  Seconds finished(const Pending& one) {
    ShardedLayout& sharding = shardings_[one.sharding];
    const auto step = [&](PartId id) -> const PartStep<TermSums>& {
      return sharding.steps.of(one.way * index_.parts().size() + id,
                               [] { return PartStep<TermSums>{}; });
    };
    Seconds between, most;
    std::size_t busiest = 0;
    for (std::size_t i = 0; i < pipeline_->stages.size(); ++i) {
      Seconds all, extra;
      for (const EqualParts& equal : pipeline_->stages[i].parts) {
        const PartStep<TermSums>& own = step(equal.id);
        all += equal.count * own.all_time, extra += equal.count * own.extra;
      }
      if (layout_->pp > 1) between = std::max(between, events_[one.events].ends[i] + extra);
      if (all > most) most = all, busiest = i;
    }
    TermSums work;
    for (const EqualParts& equal : pipeline_->stages[busiest].parts)
      work += equal.count * step(equal.id).all;
    StepEnds& ends = ends_[one.sharding];
    ends.closing = sharding.closings.of(pipeline_->stages[busiest].sum,
                                        [&] { return closing(sharding, busiest); });
    return step_around(work, ends, layout_->pp > 1, between, Seconds(0.0)).total();
  }

  std::vector<StepEnds::Closing> closing(const ShardedLayout& sharding, std::size_t kind) const {
    std::vector<ModelChunk> parts;
    const IndexedStages& stages = pipeline_->stages[kind];
    for (const std::size_t place : stages.chunks)
      parts.push_back(index_.parts()[stages.parts[place].id]);
    std::vector<StepEnds::Closing> list;
    for (const RepeatedCollective& collective : closing_collectives(sharding.run, rank_, parts))
      list.push_back({closing_term(collective), repeated_time(sharding.run, collective)});
    return list;
  }

  const PlanProblem& problem_;
  CompleteTimes times_;
  PriceTable prices_;
  PartIndex index_;
  // Of the layout at hand.
  const SearchLayout* layout_ = nullptr;
  RankParameters rank_{};
  Bytes context_{};
  std::deque<ShardedLayout> shardings_;  // the first num_shardings_ of them
  std::size_t num_shardings_ = 0;
  std::vector<KnownValues<PartBytes>> bytes_;  // by whose prices; way, part
  // Of the pipeline.
  IndexedPipeline* pipeline_ = nullptr;
  PipelineShape shape_{};
  std::optional<StageContents> contents_;
  const IndexedPipeline::MostHeld* held_ = nullptr;
  std::vector<StageStates> states_;  // of the sharding, by stages
  std::vector<StepEnds> ends_;       // by sharding
  std::vector<Events> events_;
  std::vector<ChunkLanes> lanes_, lanes_of_parts_;
  std::size_t num_events_ = 0;
  std::vector<Pending> pending_;
};

CompleteSearch::CompleteSearch(const PlanProblem& problem, CompleteTimes times)
    : layouts_(std::make_unique<Layouts>(problem, times)) {}
CompleteSearch::~CompleteSearch() = default;

void CompleteSearch::search(const LayoutGroup& group,
                            const std::function<void(const CompleteStrategy&)>& visit) {
  layouts_->search(group, visit);
}

}  // namespace llmsim::sim
