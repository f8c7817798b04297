#include "reports/peak_tensors.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "reports/memory_peak.h"
#include "reports/units.h"
#include "sim/base/dtype.h"
#include "sim/memory/peak_tensors.h"

namespace llmsim::reports {
namespace {

using sim::PeakTensor;
using sim::TensorUse;

std::string name_text(const PeakTensor& tensor) {
  return with_spaces(*tensor.name ? tensor.name : name_of(tensor.kind));
}

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

Table tensor_table(const sim::Prediction& p) {
  Table table(
      "Tensors at the peak: " + peak_phase_text(p),
      {as_text("tensor"), as_text("kind"), as_text("layer", "of"), as_text("shape"),
       as_text("dtype", "format"), as_integer("layers"), as_integer("micro_batches", "in flight"),
       in_bytes("size_bytes", "size"), as_text("why", "why it lives")});
  for (const PeakTensor& tensor : sim::peak_tensors(p.run, p.memory_peak.stage)) {
    std::vector<Cell> row{name_text(tensor), std::string(name_of(tensor.kind)),
                          std::string(name_of(tensor.site)), shape_text(tensor),
                          format_text(tensor, p.run)};
    if (tensor.has_shape()) {
      const Times times = times_of(tensor, p.memory_peak.passes_in_flight);
      row.insert(row.end(), {times.layers, times.micro_batches});
    } else {
      row.insert(row.end(), {Cell(), Cell()});
    }
    row.insert(row.end(), {tensor.size, why_text(tensor, p.memory_peak)});
    table.add_row(std::move(row));
  }
  table.add_row({"peak", "", "", "", "", Cell(), Cell(), p.memory.peak, "allocated"});
  for (const char* key : {"kind", "layer"}) table.hide(key);
  table.add_note("shape and format of one; size of all: of one x layers x micro-batches in flight");
  return table;
}

}  // namespace llmsim::reports
