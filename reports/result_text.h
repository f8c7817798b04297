// What a run is and comes to, in words that several answers have.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/predict.h"
#include "sim/strategy/strategy.h"

namespace llmsim::reports {

// A table of names and texts.
Table figures_table(std::string title);

// Lines of at most `width`, parted at spaces; `end` closes all but the last.
std::vector<std::string> wrapped(const std::string& text, std::size_t width,
                                 const std::string& end = "");

// A footnote in lines that end within 100 columns.
constexpr std::size_t kNoteWidth = 96;
void add_wrapped_note(Table& table, const std::string& text);

// Texts below a table, each once, which its cells name by number.
class Footnotes {
 public:
  std::string mark(const std::string& text);  // "[2]"
  std::vector<std::string> lines() const;     // "[2] text"

 private:
  std::vector<std::string> texts_;
};

// A value whose text continues in further rows, so that the table stays within 100 columns.
void add_figure(Table& table, const std::string& name, const std::string& text);

// "gradient_overlap on (+8.0 % without)": switches that change the step by a hundredth.
std::string worths_text(std::span<const sim::SwitchWorth> worths);

// "256 x h100_sxm (dgx_h100)".
std::string hardware_text(const sim::Cluster& cluster);

// "llama-3-70b on 256 x h100_sxm (dgx_h100)".
std::string title_of(const sim::Prediction& prediction);

// "16.29 s (12.61 s to 24.47 s with 90 % probability)", and the slow state of a network.
std::string step_time_text(const sim::Prediction& prediction);

// Per device and in all.
std::string throughput_text(const sim::Prediction& prediction);

// Model FLOP/s, MFU and HFU.
std::string utilisation_text(const sim::Prediction& prediction);

// "93.1 %"; nothing is sure.
std::string probability_text(double probability);

// What the fullest stage needs of what a device has, and the odds that it fits.
std::string memory_text(const sim::Memory& memory);

// --- a strategy in the words of the command line ---

// "none", "selective", "full", "full every 4", "every-n=2", "op".
std::string recompute_text(const sim::Recompute& recompute);

// "zero1", "hsdp/8".
std::string sharding_text(const sim::Strategy& strategy);

// "bf16, adamw", with ", LoRA of rank 16 on q, v" where adapters are trained.
std::string recipe_text(const sim::Strategy& strategy);

// The mesh without factors of one: "tp 8, pp 4, dp 8"; "one device" where there is nothing left.
std::string mesh_text(const sim::Strategy& strategy);

// Everything that a plan varies, in one line: "tp 8, pp 4, dp 8, zero1, micro-batch 2, recompute
// selective, 2 virtual stages".
std::string strategy_text(const sim::Strategy& strategy);

}  // namespace llmsim::reports
