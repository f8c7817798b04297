#include "sim/base/streaming_kernel.h"

namespace llmsim::sim {

const char* name_of(StreamingKernel kernel) {
  switch (kernel) {
    case StreamingKernel::LayerNorm: return "layer_norm";
    case StreamingKernel::RmsNorm: return "rms_norm";
    case StreamingKernel::Softmax: return "softmax";
    case StreamingKernel::Gelu: return "gelu";
    case StreamingKernel::GatedActivation: return "gated_activation";
    case StreamingKernel::Rotary: return "rotary";
    case StreamingKernel::Add: return "add";
    case StreamingKernel::ColumnSum: return "column_sum";
    case StreamingKernel::Copy: return "copy";
    case StreamingKernel::Lookup: return "lookup";
    case StreamingKernel::CrossEntropy: return "cross_entropy";
    case StreamingKernel::ChunkedCrossEntropy: return "chunked_cross_entropy";
    case StreamingKernel::Cast: return "cast";
    case StreamingKernel::Optimizer: return "optimizer";
    case StreamingKernel::SquareSum: return "square_sum";
    case StreamingKernel::Scale: return "scale";
    case StreamingKernel::ExpertChoice: return "expert_choice";
    case StreamingKernel::RowMove: return "row_move";
    case StreamingKernel::WeightedSum: return "weighted_sum";
  }
  return "";
}

}  // namespace llmsim::sim
