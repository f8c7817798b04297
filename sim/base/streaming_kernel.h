// Kernels of the operators that only stream data, as far as they differ in speed where arithmetic costs more than the bytes.
#pragma once

namespace llmsim::sim {

enum class StreamingKernel {
  LayerNorm,
  RmsNorm,
  Softmax,
  Gelu,
  GatedActivation,
  Rotary,
  Add,           // residuals
  ColumnSum,     // gradients of biases
  Copy,          // into another layout
  Lookup,        // of the embedding, and the sums of its gradient
  CrossEntropy,  // loss, and gradient of the logits, in two passes
  ChunkedCrossEntropy,
  Cast,
  Optimizer,
  SquareSum,     // norm of gradients
  Scale,         // of gradients, in place
  ExpertChoice,  // of a router: softmax, the largest, the order of rows
  RowMove,       // rows of a matrix into another order
  WeightedSum    // of the rows of a token
};

inline constexpr int kNumStreamingKernels = 19;

// "layer_norm", "rms_norm", ...
const char* name_of(StreamingKernel kernel);

}  // namespace llmsim::sim
