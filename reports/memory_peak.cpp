#include "reports/memory_peak.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "reports/units.h"
#include "sim/base/dtype.h"
#include "sim/memory/peak_tensors.h"

namespace llmsim::reports {

namespace {

using sim::Prediction;

constexpr int kBarWidth = 40;

// "micro-batch 3 of 8", counted from 1.
std::string one_of(const char* what, int index, int count) {
  return std::string(what) + " " + std::to_string(index + 1) + " of " + std::to_string(count);
}

std::string with_place(std::string text, const sim::Run& run, std::optional<int> layer,
                       std::optional<int> micro_batch) {
  if (layer) text += " of " + one_of("layer", *layer, run.model.num_layers);
  if (micro_batch)
    text += (layer ? ", " : " of ") +
            one_of("micro-batch", *micro_batch, run.strategy.num_microbatches());
  return text;
}

std::string phase_text(std::string_view phase) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 4> kTexts{
      {{"idle", "between two steps"},
       {"forward", "forward pass"},
       {"backward", "backward pass"},
       {"update", "optimizer update"}}};
  for (const auto& [name, text] : kTexts) {
    if (phase == name) return text;
  }
  return std::string(phase);
}

// Of terms that are not so many bytes for each parameter.
std::string nature_of(std::string_view term, const sim::MemoryPeak& peak) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 13> kTexts{
      {{"gathered_weights", "whole weights of the sharded units at hand"},
       {"cast_weights", "16-bit copies of fp32 weights, which autocast makes"},
       {"gradient_buffers", "whole gradients of sharded units"},
       {"logits", "with their fp32 copies and gradient"},
       {"recomputed_activations", "what recomputation brings back"},
       {"activation_gradients", "of one block"},
       {"optimizer_temporaries", "of the update"},
       {"pipeline_buffers", "received from and sent to other stages"},
       {"dispatch_buffers", "tokens of all expert ranks"},
       {"gradient_buckets", "copies of gradients for their reduction"},
       {"workspaces", "of the matrix libraries"},
       {"framework", "buckets of collectives"},
       {"measured_correction", "what measured peaks of the site say"}}};
  if (term == "activations" && peak.blocks_in_flight > 0)
    return std::to_string(peak.blocks_in_flight) +
           (peak.blocks_in_flight == 1 ? " block of " : " blocks of ") +
           std::to_string(peak.passes_in_flight) +
           (peak.passes_in_flight == 1 ? " forward pass" : " forward passes");
  for (const auto& [name, text] : kTexts) {
    if (term == name) return text;
  }
  return "";
}

bool is_per_parameter(std::string_view term) {
  static constexpr std::array<std::string_view, 5> kTerms{"weights", "gradients", "main_gradients",
                                                          "master_weights", "optimizer_states"};
  return std::ranges::find(kTerms, term) != kTerms.end();
}

// "2.00 bytes/parameter" of a term that is so much for each parameter of the stage; else empty.
std::string bytes_per_parameter(std::string_view term, sim::Bytes size,
                                const sim::MemoryPeak& peak) {
  if (!is_per_parameter(term) || peak.parameters <= 0.0) return "";
  return significant(size.value() / peak.parameters, 3) + " bytes/parameter";
}

std::string note_of(const sim::MemoryTerm& term, const sim::MemoryPeak& peak) {
  if (!is_per_parameter(term.name) || peak.parameters <= 0.0) return nature_of(term.name, peak);
  return significant(term.size.value() / peak.parameters, 3) + " bytes for each of " +
         significant(peak.parameters / 1e9) + " B parameters";
}

std::string bar(sim::Bytes size, sim::Bytes largest) {
  return std::string(static_cast<std::size_t>(std::lround(kBarWidth * (size / largest))), '#');
}

using sim::PeakTensor;
using sim::TensorUse;

std::string shape_text(const PeakTensor& tensor) {
  if (!tensor.has_shape()) return "";
  const auto number = [](double value) {
    return std::round(value) == value ? std::to_string(static_cast<std::int64_t>(value))
                                      : significant(value, 4);
  };
  return number(tensor.shape.rows) + " x " + number(tensor.shape.columns);
}

std::string format_text(const PeakTensor& tensor, const sim::Run& run) {
  if (!tensor.has_shape()) return "";
  const double bytes = tensor.shape.element;
  const sim::DType activation = sim::activation_dtype(run.strategy.precision);
  if (bytes == size_of(activation).value()) return sim::name_of(activation);
  if (bytes == 1.0) return "8 bits";
  if (bytes == 4.0) return "fp32";
  if (bytes == 8.0) return "int64";
  return significant(bytes, 4) + " B";
}

// How often a tensor is there: in so many layers, of so many micro-batches in flight.
struct Times {
  std::int64_t layers = 1, micro_batches = 1;
};

Times times_of(const PeakTensor& tensor, int passes_in_flight) {
  const auto count = static_cast<std::int64_t>(std::llround(tensor.count()));
  const std::int64_t passes = std::max(1, passes_in_flight);
  return count >= passes && count % passes == 0 ? Times{count / passes, passes} : Times{count, 1};
}

std::string why_text(const PeakTensor& tensor, const sim::MemoryPeak& peak) {
  if (!*tensor.name) return bytes_per_parameter(name_of(tensor.kind), tensor.size, peak);
  if (tensor.name == std::string_view(sim::kResidualStream))
    return tensor.kind == sim::MemoryKind::ActivationGradients ? "its gradient" : "layers' inputs";
  const std::string module = sim::name_of(tensor.module);
  switch (tensor.use) {
    case TensorUse::Saved: return tensor.site == sim::LayerSite::Stage ? "" : "saved: " + module;
    case TensorUse::Read: return "read next";
    case TensorUse::Recomputed: return "recomputed";
    case TensorUse::Gradient: return "its gradient";
    case TensorUse::Workspace: return "workspace: " + module;
  }
  return "";
}

}  // namespace

std::string peak_phase_text(const Prediction& p) {
  const sim::MemoryPeak& peak = p.memory_peak;
  const std::string stage =
      p.run.strategy.pp > 1 ? one_of("stage", peak.stage, p.run.strategy.pp) + ", " : "";
  return stage + with_place(phase_text(peak.phase), p.run, peak.layer, peak.micro_batch);
}

Table peak_table(const Prediction& p) {
  Table table("At the peak: " + peak_phase_text(p),
              {as_text("term", "what lives"), in_bytes("size_bytes", "size"), in_percent("share"),
               as_text("note", "of which")});
  const sim::Memory& memory = p.memory;
  const auto share = [&](sim::Bytes size) {
    return memory.peak > sim::Bytes(0.0) ? size / memory.peak : 0.0;
  };
  std::vector<sim::MemoryTerm> terms = memory.fullest().terms;
  std::ranges::stable_sort(terms, [](const auto& a, const auto& b) { return a.size > b.size; });
  for (const sim::MemoryTerm& term : terms) {
    table.add_row(
        {std::string(term.name), term.size, share(term.size), note_of(term, p.memory_peak)});
  }
  table.add_row({"peak", memory.peak, share(memory.peak), "allocated"});
  table.add_row(
      {"gaps", memory.margin, share(memory.margin), "that an allocator running full cannot close"});
  table.add_row(
      {"context", memory.context, share(memory.context), "of the driver and the communicators"});
  table.add_row({"needed", memory.needed(), share(memory.needed()),
                 "of " + human(memory.capacity) + " usable"});
  return table;
}

Table curve_table(const Prediction& p, const sim::MemoryCurve& curve, Format format) {
  const bool people = format != Format::Csv && format != Format::Json;
  std::vector<Column> columns{as_text("phase"), as_integer("micro_batch", "micro-batch"),
                              as_integer("layer"), in_bytes("allocated_bytes", "allocated"),
                              in_bytes("reserved_bytes", "reserved")};
  if (people) columns.push_back(as_text("bar", ""));
  Table table("Memory through the step of " + one_of("stage", curve.stage, p.run.strategy.pp),
              columns);
  const auto index = [&](std::optional<int> i) {
    return i ? Cell(std::int64_t{*i} + (people ? 1 : 0)) : Cell();
  };
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const sim::MemoryPoint& point = curve.points[i];
    Cells row{std::string(point.phase), index(point.micro_batch), index(point.layer),
              point.allocated, curve.reserved(point)};
    if (people)
      row.emplace_back(bar(point.allocated, curve.peak().allocated) +
                       (i == curve.highest ? " peak" : ""));
    table.add_row(std::move(row));
  }
  table.add_note("reserved: with the fragmentation that measured runs of this framework show");
  return table;
}

Table tensor_table(const sim::Prediction& p) {
  Table table(
      "Tensors at the peak: " + peak_phase_text(p),
      {as_text("tensor"), as_text("kind"), as_text("layer", "of"), as_text("shape"),
       as_text("dtype", "format"), as_integer("layers"), as_integer("micro_batches", "in flight"),
       in_bytes("size_bytes", "size"), as_text("why", "why it lives")});
  for (const PeakTensor& tensor : sim::peak_tensors(p.run, p.memory_peak.stage)) {
    Cells row{with_spaces(*tensor.name ? tensor.name : name_of(tensor.kind)),
              std::string(name_of(tensor.kind)), std::string(name_of(tensor.site)),
              shape_text(tensor), format_text(tensor, p.run)};
    if (tensor.has_shape()) {
      const Times times = times_of(tensor, p.memory_peak.passes_in_flight);
      row.insert(row.end(), {times.layers, times.micro_batches});
    } else {
      row.insert(row.end(), {Cell(), Cell()});
    }
    row.insert(row.end(), {tensor.size, why_text(tensor, p.memory_peak)});
    table.add_row(std::move(row));
  }
  for (const sim::MemoryTerm& term : p.memory.fullest().terms) {
    if (std::string_view(term.name) == name_of(sim::MemoryKind::MeasuredCorrection))
      table.add_row({with_spaces(term.name), term.name, "", "", "", Cell(), Cell(), term.size,
                     nature_of(term.name, p.memory_peak)});
  }
  table.add_row({"peak", "", "", "", "", Cell(), Cell(), p.memory.peak, "allocated"});
  for (const char* key : {"kind", "layer"}) table.hide(key);
  table.add_note("shape and format of one; size of all: of one x layers x micro-batches in flight");
  return table;
}

}  // namespace llmsim::reports
