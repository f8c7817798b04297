#include "sim/memory/footprint.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/memory/stage_bytes.h"
#include "sim/memory/step_tape.h"

namespace llmsim::sim {
namespace {

enum class Instant { Idle, Forward, Loss, Backward, Gradients, Update };

constexpr std::array<const char*, 6> kInstantNames{"idle", "forward", "loss", "backward", "gradients", "update"};
constexpr std::array<Instant, 6> kInstants{Instant::Idle,     Instant::Forward,   Instant::Loss,
                                           Instant::Backward, Instant::Gradients, Instant::Update};

class StageFootprint {
 public:
  StageFootprint(const Run& run, const LayerPrices& prices) : run_(run), prices_(prices), contents_(run.model, run.strategy) {}

  StageMemory stage(int index) const {
    if (follows_tape(run_)) return taped_stage(index);
    const StageBytes bytes = stage_bytes(run_, prices_, contents_, index);
    Instant worst = Instant::Idle;
    MemoryTerms terms = terms_at(worst, bytes);
    const Bytes idle = terms.total();
    Bytes peak = idle;
    for (const Instant instant : kInstants) {
      const MemoryTerms there = terms_at(instant, bytes);
      if (there.total() <= peak) continue;
      worst = instant, terms = there, peak = there.total();
    }
    StageMemory memory{.stage = index, .instant = kInstantNames[static_cast<std::size_t>(worst)], .peak = peak};
    memory.terms = terms.present();
    add_gaps(memory, worst, idle, bytes);
    return memory;
  }

  std::vector<MemoryInstant> timeline(int index) const {
    if (follows_tape(run_)) return taped_timeline(index);
    const StageBytes bytes = stage_bytes(run_, prices_, contents_, index);
    std::vector<MemoryInstant> instants;
    for (const Instant instant : kInstants) {
      if (instant == Instant::Loss && bytes.logits <= Bytes(0.0)) continue;
      const MemoryTerms terms = terms_at(instant, bytes);
      instants.push_back({kInstantNames[static_cast<std::size_t>(instant)], terms.total(), terms.present()});
    }
    return instants;
  }

 private:
  static std::vector<MemoryTerm> taped_terms(const StepTape& tape, MemoryKind rest, Bytes allocated) {
    std::vector<MemoryTerm> terms{{name_of(MemoryKind::Weights), tape.weights},
                                  {name_of(MemoryKind::Gradients), tape.gradients},
                                  {name_of(MemoryKind::Master), tape.master},
                                  {name_of(MemoryKind::States), tape.states},
                                  {"buffers", tape.buffers},
                                  {name_of(rest), allocated - tape.persistent()}};
    std::erase_if(terms, [](const MemoryTerm& term) { return term.size <= Bytes(0.0); });
    return terms;
  }
  static MemoryKind rest_at_peak(const StepTape& tape) {
    return tape.instant == std::string_view("update") ? MemoryKind::Temporaries : MemoryKind::Activations;
  }

  StageMemory taped_stage(int index) const {
    const StepTape tape = step_tape(run_, index);
    return {.stage = index,
            .instant = tape.instant,
            .peak = tape.peak,
            .reserved = tape.peak,
            .terms = taped_terms(tape, rest_at_peak(tape), tape.peak)};
  }

  std::vector<MemoryInstant> taped_timeline(int index) const {
    const StepTape tape = step_tape(run_, index);
    return {{"idle", tape.persistent(), taped_terms(tape, MemoryKind::Activations, tape.persistent())},
            {"forward", tape.after_forward, taped_terms(tape, MemoryKind::Activations, tape.after_forward)},
            {tape.instant, tape.peak, taped_terms(tape, rest_at_peak(tape), tape.peak)}};
  }

  bool gradients_stay() const { return run_.framework.gradients.persist || run_.strategy.num_microbatches() > 1; }

  MemoryTerms terms_at(Instant instant, const StageBytes& b) const {
    MemoryTerms terms = lasting_terms(b, run_.framework);
    if (instant == Instant::Idle) return terms;
    const bool last = instant == Instant::Gradients, update = instant == Instant::Update;
    if (last || update || gradients_stay()) terms[MemoryKind::Gradients] = b.gradients;
    if (update) {
      terms[MemoryKind::MainGradients] = b.main_gradients;
      terms[MemoryKind::Temporaries] = b.temporaries;
      return terms;
    }
    const bool loss = instant == Instant::Loss, backward = instant == Instant::Backward;
    terms[MemoryKind::Gathered] = b.gathered;
    terms[MemoryKind::Activations] = loss ? b.activations_at_loss : (last ? b.last_block : b.activations);
    if (loss) terms[MemoryKind::Logits] = b.logits;
    if (!last) terms[MemoryKind::GradientBuffers] = b.unreduced_gradients;
    if (backward) terms[MemoryKind::Recomputed] = b.restored;
    if (backward || last) {
      terms[MemoryKind::GradientBuffers] += last ? b.gradient_buffers : b.waiting_gradients;
      terms[MemoryKind::ActivationGradients] = b.activation_gradients;
    }
    return terms;
  }

  // Gaps among the blocks that a step allocates and frees.  The flat buffers of the update leave none, and fit into none.
  void add_gaps(StageMemory& memory, Instant worst, Bytes idle, const StageBytes& b) const {
    const Bytes flat = b.temporaries, none{};
    const bool update = worst == Instant::Update;
    const Bytes passing = memory.peak - idle - (update ? flat : none);
    memory.lost = std::max(none, (run_.framework.reserve.fragmentation - 1.0) * passing);
    memory.reserved = memory.peak + memory.lost + (update ? none : flat);
  }

  const Run& run_;
  const LayerPrices& prices_;
  StageContents contents_;
};

}  // namespace

const StageMemory& Memory::fullest() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
}

Memory memory_footprint(const Run& run, const LayerPrices& prices) {
  const StageFootprint footprint(run, prices);
  Memory memory;
  for (int stage = 0; stage < run.strategy.pp; ++stage) {
    memory.stages.push_back(footprint.stage(stage));
    memory.peak = std::max(memory.peak, memory.stages.back().peak);
    memory.reserved = std::max(memory.reserved, memory.stages.back().reserved);
  }
  memory.context = context_memory(run);
  memory.margin = run.framework.reserve.unrecoverable_gaps * memory.fullest().lost;
  memory.capacity = run.cluster.device.usable_memory;
  memory.device = memory.reserved + memory.context;
  memory.host = host_memory(run, prices);
  return memory;
}

std::vector<MemoryInstant> memory_timeline(const Run& run, const LayerPrices& prices, int stage) {
  return StageFootprint(run, prices).timeline(stage);
}

Bytes context_memory(const Run& run) {
  const Strategy& s = run.strategy;
  const int kinds = (s.dp > 1) + (s.tp > 1) + (s.pp > 1) + (s.cp > 1) + (s.ep > 1);
  const int further = kinds > 1 ? kinds : 0;
  return run.cluster.device.context_memory + further * run.cluster.device.communicator_memory;
}

}  // namespace llmsim::sim
