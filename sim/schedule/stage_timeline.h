// Writes the events of one stage of a timeline (timeline.h): its passes as they were simulated, and what follows them.
//
// Ours, as timeline.h is.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/schedule/pass_operators.h"
#include "sim/schedule/step.h"
#include "sim/schedule/timeline.h"

namespace llmsim::sim {

class StageTimelineWriter {
 public:
  // All arguments must outlive the writer.
  StageTimelineWriter(const Run& run, const LayerPrices& prices, const StepSimulation& simulation, const PassOperators& operators,
                      const TimelineOptions& options, int stage);

  // Passes, bubbles between them, and sends; returns when the last pass has ended.
  Seconds write_passes(std::span<const PassEvent> passes);
  // From `start`, when the passes that all wait for have ended, to the end of the step.
  void write_end_of_step(Seconds start);

  std::vector<TimelineEvent> sorted_events();

 private:
  // Time on the compute stream: one pass, two that are joined, or several that are not drawn one by one.
  struct Work {
    std::string name;
    const char* category = "";
    Seconds start{};
    Seconds end{};
    Terms terms{};
    std::array<Seconds, kNumTerms> messages{};  // by the term that they are exposed as

    void add(const Work& other);
  };

  Work work_of(std::span<const PassEvent> passes, std::size_t index, std::size_t count) const;
  Terms pass_terms(const PipelinePass& pass, bool first, bool last) const;
  void add_messages(Work& work, const PipelinePass& pass, bool first, bool last) const;
  std::string pass_name(const PipelinePass& pass) const;
  bool is_first(std::span<const PassEvent> passes, std::size_t index) const;
  bool is_last(std::span<const PassEvent> passes, std::size_t index) const;
  bool is_shown(const PipelinePass& pass) const;

  void write(const Work& work);
  void write_communication(const Work& work);
  void write_bubble(Seconds start, Seconds end);
  void add_to_others(const Work& work);
  void write_others();
  void write_send(const PipelinePass& pass, Seconds start);
  bool has_operators(const PipelinePass& pass) const { return pass.microbatch < options_.operator_microbatches; }
  std::vector<PassOperator> operators_of(const PipelinePass& pass) const;
  void write_operators(const PipelinePass& pass, Seconds start, Seconds end);
  void write_joined_operators(const PipelinePass& forward, const PipelinePass& backward, Seconds start, Seconds end);
  void write_operator(const PassOperator& op, const std::string& pass, Seconds& start, Seconds end);
  const ChunkTimes& times_of(const PipelinePass& pass) const;
  void write_closing(const std::string& name, Term term, Stream stream, Seconds time);

  // Of one chunk, if nothing were hidden: messages of its passes to inner groups, by stream, and of its weights and gradients.
  struct ChunkMessages {
    ModelPart part;
    PassPrice forward, backward;
    Seconds gather, reduce;
  };

  const Run& run_;
  const StepSimulation& simulation_;
  const PassOperators& operators_;
  const TimelineOptions& options_;
  int stage_;
  StageLayout layout_;
  std::vector<ChunkMessages> chunks_;
  std::vector<TimelineEvent> events_;
  Work others_;  // passes that are not drawn, since the last that was
  bool has_others_ = false;
  Seconds clock_{};
  std::array<Seconds, 2> sent_{};  // when the last send has ended, forward and backward
};

}  // namespace llmsim::sim
