#include "sim/operators/loss.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The loss of one rank over `tokens` tokens, whose logits are made.
struct Loss {
  LayerBuilder& b;
  std::int64_t tokens;
  const Transformer& model = b.model;
  const Strategy& strategy = b.strategy;
  const Framework& framework = b.framework;
  std::int64_t columns = model.vocab_size / strategy.tp;  // of the vocabulary
  double element = b.element;                             // bytes
  std::int64_t chunks = loss_chunks(model, framework, tokens);

  DType dtype() const { return activation_dtype(strategy.precision); }
  bool trains() const { return !strategy.adapters; }
  bool divided() const { return strategy.tp > 1; }
  bool casts() const { return framework.casts_weights_per_microbatch && element < kFp32Bytes; }
  double logits() const { return real(tokens) * real(columns); }
  double weights() const { return real(columns) * model.hidden_size; }
  std::int64_t chunk_tokens() const { return ceil_div(tokens, chunks); }
  std::int64_t pieces() const { return ceil_div(tokens, chunk_tokens()); }
  LayerWeight weight() const { return {.rows = model.hidden_size, .columns = columns}; }
  // `count` of each logit, of `bytes` bytes.
  TensorShape of_logits(double count, double bytes) const {
    return {count * real(tokens), real(columns), bytes};
  }
};

// The head multiplies in 16 bits under the low-precision recipes unless the framework says
// otherwise; under adapters it is frozen.
LayerOperators head_linear(const Loss& loss) {
  const Precision precision = loss.strategy.precision;
  const bool low_precision = size_of(matmul_dtype(precision)) < size_of(DType::Bf16);
  const LinearContext context{.precision = low_precision && !loss.framework.low_precision.head
                                               ? Precision::Bf16
                                               : precision,
                              .framework = &loss.framework,
                              .adapters = {},
                              .frozen = !loss.trains()};
  return lower_linear(context, "head", loss.tokens, loss.columns, loss.model.hidden_size);
}

// Tensor ranks have columns of the logits: the largest of a row, the sum of its exponentials and
// the logit of its target are those of all of them.
void add_vocabulary_sums(OperatorList& operators, const Loss& loss, std::int64_t pieces) {
  if (loss.strategy.tp == 1) return;
  const Bytes message(real(loss.tokens) * kFp32Bytes / real(pieces));
  for (const char* label : {"largest_logit", "target_logit", "sum_of_exponentials"}) {
    Operator sum = collective(label, CollectiveKind::AllReduce, GroupKind::Tensor, message);
    sum.launches = static_cast<int>(pieces);
    sum.kernels *= sum.launches;
    operators.push_back(sum);
  }
}

Operator entropy(const Loss& loss, double bytes, int kernels) {
  return memory_bound(OperatorKind::CrossEntropy, "cross_entropy", loss.logits(), bytes, kernels);
}

LayerOperators entropy_of(const Loss& loss, const Traffic& traffic, int chunks) {
  LayerOperators operators;
  add_vocabulary_sums(operators.forward, loss, chunks);
  operators.forward.push_back(
      entropy(loss, traffic.forward.bytes, traffic.forward.kernels * chunks));
  operators.backward.push_back(
      entropy(loss, traffic.backward.bytes, traffic.backward.kernels * chunks));
  return operators;
}

Operator weight_cast(const Loss& loss) {
  return memory_bound(OperatorKind::Cast, "weight_cast", loss.weights(), 2.0 + kFp32Bytes, 1);
}

Operator chunk_gemm(const Loss& loss, std::int64_t m, std::int64_t n, std::int64_t k) {
  Operator head = gemm("head", loss.chunks, m, n, k,
                       high_precision_matmul_dtype(loss.strategy.precision), loss.dtype());
  head.flops =
      2.0 * loss.logits() * loss.model.hidden_size * FLOP;  // the last chunk may be smaller
  head.kernels = static_cast<int>(loss.chunks);
  return head;
}

Operator logits_gemm(const Loss& loss) {
  return transposed(chunk_gemm(loss, loss.chunk_tokens(), loss.columns, loss.model.hidden_size));
}

// Gradients of the input and, where it is trained, of the weight: each chunk reads the sum that it
// adds to.
void add_gradients(OperatorList& operators, const Loss& loss) {
  const std::int64_t h = loss.model.hidden_size, tokens = loss.chunk_tokens();
  operators.push_back(chunk_gemm(loss, tokens, h, loss.columns));
  if (!loss.trains()) return;
  Operator weight = chunk_gemm(loss, h, loss.columns, tokens);
  weight.moved += real(loss.chunks) * loss.weights() * size_of(loss.dtype());
  weight.weight_gradient = true;
  operators.push_back(weight);
}

LayerOperators recomputed(const Loss& loss) {
  const Traffic traffic = cross_entropy_traffic(loss.framework, loss.element);
  LayerOperators operators = entropy_of(loss, traffic, static_cast<int>(loss.chunks));
  OperatorList& forward = operators.forward;
  forward.insert(forward.begin(), logits_gemm(loss));
  if (loss.casts()) forward.insert(forward.begin(), weight_cast(loss));
  operators.recompute.push_back(logits_gemm(loss));
  add_vocabulary_sums(operators.recompute, loss, loss.pieces());
  operators.recompute.push_back(entropy(loss, traffic.forward.bytes, traffic.forward.kernels));
  add_gradients(operators.backward, loss);
  return operators;
}

LayerOperators gradient_in_forward(const Loss& loss) {
  const double e = loss.element;
  const bool full_precision = e >= kFp32Bytes;
  LayerOperators operators;
  OperatorList& forward = operators.forward;
  if (loss.casts()) forward.push_back(weight_cast(loss));
  forward.push_back(logits_gemm(loss));
  // upcast, two reads and one write by the kernel, cast back
  const double bytes = 3.0 * kFp32Bytes + (full_precision ? 0.0 : 2.0 * (e + kFp32Bytes));
  add_vocabulary_sums(forward, loss, loss.pieces());
  forward.push_back(entropy(loss, bytes, static_cast<int>(loss.chunks) * (full_precision ? 1 : 3)));
  add_gradients(forward, loss);
  const double waiting =
      (loss.trains() ? loss.weights() : 0.0) + real(loss.tokens) * loss.model.hidden_size;
  if (loss.framework.loss.scales_gradients)
    operators.backward.push_back(
        memory_bound(OperatorKind::GradientScale, "gradient_scale", waiting, 2.0 * e, 2));
  if (loss.casts() && loss.framework.casts_weights_in_backward)
    operators.backward.push_back(weight_cast(loss));
  return operators;
}

// GEMMs and casts of weights are the head's.
LayerOperators in_modules(LayerOperators operators) {
  for (OperatorList* pass : {&operators.forward, &operators.backward, &operators.recompute}) {
    for (Operator& op : *pass) op.module = in_gemms(op) ? Module::Head : Module::Loss;
  }
  return operators;
}

// Of the rows of `tokens` tokens: a temporary of their exponentials; over tensor ranks ids, flags
// and three sums instead.
double row_sums(const Loss& loss, double tokens) {
  if (!loss.divided())
    return std::max(tokens * real(loss.columns) * kFp32Bytes, tokens * kFp32Bytes + kFp32Bytes);
  return tokens * (kTokenIdBytes + kFlagBytes + 3.0 * kFp32Bytes);
}

double row_sums_backward(const Loss& loss, double tokens) {
  return loss.divided() ? tokens * (kTokenIdBytes + kFlagBytes + kFp32Bytes) : tokens * kFp32Bytes;
}

// The largest chunk from its logits to their gradient, and that of the head's weights.
Bytes chunk_workspace(const Loss& loss) {
  const double chunk = real(std::min(loss.tokens, loss.chunk_tokens())), e = loss.element,
               columns = real(loss.columns);
  const double low = chunk * columns * e, high = chunk * columns * kFp32Bytes,
               sums = 2.0 * kFp32Bytes;
  const double of_weights = loss.b.weight_gradient_workspace(Module::Head, loss.weight()).value();
  const double forward =
      (e < kFp32Bytes ? std::max(low, row_sums(loss, chunk)) : row_sums(loss, chunk)) + high;
  const double backward =
      high + std::max(row_sums_backward(loss, chunk), e < kFp32Bytes ? low : 0.0) + kFp32Bytes;
  return Bytes(std::max({forward, backward, low + kFp32Bytes + of_weights}) + sums - kFp32Bytes);
}

double fp32_copies(const Loss& loss) {
  const bool shared = loss.divided() && loss.framework.loss.parallel_logit_copies > 0.0;
  return shared ? loss.framework.loss.parallel_logit_copies : loss.framework.loss.fp32_logit_copies;
}

// Its logits with their fp32 copies or their gradient, and the gradient of the head's weights: of
// the chunk and the sum.
Bytes recomputed_chunk(const Loss& loss) {
  const double e = loss.element, in_place = loss.framework.loss.gradient_in_place ? 0.0 : e;
  const double with_it =
      loss.framework.loss.fp32_logits ? fp32_copies(loss) * kFp32Bytes : in_place;
  return Bytes(loss.logits() * (e + with_it) / real(loss.chunks) +
               (loss.trains() ? 2.0 * loss.weights() * e : 0.0));
}

// Logits of a chunk of tokens at a time, whose gradients are made in the forward pass and wait.
void add_waiting_gradients(const Loss& loss, TensorId input) {
  LayerBuilder& b = loss.b;
  const TensorId gradient =
      b.tensor("gradient of the head's input", b.layer[input].shape, TensorRole::Statistic);
  TensorId of_weights = kNoTensor;
  if (b.autograd())
    of_weights = b.tensor(
        "gradient of the head's weights",
        {loss.trains() ? real(loss.model.hidden_size) : 0.0, real(loss.columns), loss.element},
        TensorRole::LogitsCopy);
  Node& node = b.layer.add_as_they_are(Module::Loss, in_modules(gradient_in_forward(loss)))
                   .reads(input)
                   .writes(gradient)
                   .saves(gradient)
                   .gradient_in(gradient);
  if (!b.autograd()) {
    node.forward_workspace(chunk_workspace(loss));
    return;
  }
  const double e = loss.element, cast = loss.casts() ? loss.weights() * e : 0.0;
  node.writes(of_weights)
      .saves(of_weights)
      .forward_workspace(Bytes(
          loss.logits() / real(loss.chunks) * (e < kFp32Bytes ? 2.0 * e + kFp32Bytes : e) + cast));
}

void add_chunked(const Loss& loss, TensorId normed, const SharedInput& shared) {
  LayerBuilder& b = loss.b;
  const std::size_t place = b.layer.backward_place();
  const TensorId input =
      b.gathers ? b.gathered(Module::Head, "head's input", b.whole_residual(), normed, shared)
                : normed;
  if (loss.framework.loss.fused == FusedLoss::Recomputed) {
    b.layer.add_as_they_are(Module::Loss, in_modules(recomputed(loss)))
        .reads(input)
        .saves(normed)
        .forward_workspace(recomputed_chunk(loss))
        .backward_workspace(recomputed_chunk(loss));
  } else {
    add_waiting_gradients(loss, input);
  }
  b.layer.share_gradient(place, shared);
}

Node& loss_node(const Loss& loss, LayerOperators operators, TensorId logits) {
  return loss.b.layer.add(Module::Loss, std::move(operators)).reads(logits);
}

// `count` fp32 copies at once, the last of them in the backward pass.
void save_copies(const Loss& loss, Node& node, TensorId logits, double count) {
  const TensorId saved =
      loss.b.tensor("logits in fp32", loss.of_logits(std::max(0.0, count - 1.0), kFp32Bytes),
                    TensorRole::LogitsCopy);
  node.writes(saved).saves(saved).gradient_in(logits).backward_workspace(
      loss.of_logits(std::min(1.0, count), kFp32Bytes).size());
}

// 16-bit logits as PyTorch's operators leave them: what log-softmax gives is saved, and the backward
// pass holds its gradient beside that of the logits.
void save_log_softmax(const Loss& loss, Node& node) {
  const TensorId saved =
      loss.b.tensor("log-softmax", loss.of_logits(1.0, loss.element), TensorRole::LogitsCopy);
  node.writes(saved).saves(saved).backward_workspace(loss.of_logits(1.0, loss.element).size());
}

void add_autograd(const Loss& loss, LayerOperators operators, TensorId logits) {
  Node& node = loss_node(loss, std::move(operators), logits).saves(logits);
  if (loss.framework.loss.fp32_logits)
    save_copies(loss, node, logits, fp32_copies(loss));
  else if (loss.framework.loss.gradient_in_place)
    node.gradient_in(logits);
  else if (loss.framework.fusion != ElementwiseFusion::Compiled)
    save_log_softmax(loss, node);
}

// One kernel for the logits' loss, or chunks of tokens whose gradients wait.
void add_fused(const Loss& loss, TensorId logits) {
  if (loss.framework.loss.fused != FusedLoss::Logits) {
    // It reads and writes an fp32 copy of the logits, its gradient likewise.
    const PassTraffic pass{loss.element + 2.0 * kFp32Bytes, 2};
    LayerOperators kernel = entropy_of(loss, {.forward = pass, .backward = pass}, 1);
    const LossBehaviour& behaviour = loss.framework.loss;
    const double copies = !behaviour.gradient_in_place ? 2.0 : (behaviour.fp32_logits ? 1.0 : 0.0);
    save_copies(loss, loss_node(loss, std::move(kernel), logits).saves(logits), logits, copies);
    return;
  }
  const int chunks = static_cast<int>(loss.chunks);
  LayerOperators operators =
      entropy_of(loss, cross_entropy_traffic(loss.framework, loss.element), chunks);
  loss_node(loss, std::move(operators), logits)
      .saves(logits)
      .forward_workspace(Bytes(2.0 * kFp32Bytes * loss.logits() / chunks));
}

// What is saved of the logits is their exponentials in fp32, from which their gradient is made.
void add_plain(const Loss& loss, LayerOperators operators, TensorId logits) {
  LayerBuilder& b = loss.b;
  const double tokens = real(loss.tokens);
  if (loss.element < kFp32Bytes) {
    const TensorId saved = b.tensor("exponentials of the logits", loss.of_logits(1.0, kFp32Bytes),
                                    TensorRole::LogitsCopy);
    // The sums of the backward pass are freed before the gradient, which is larger, is made.
    loss_node(loss, std::move(operators), logits).writes(saved).saves(saved);
    b.layer.add(Module::Loss).reads(saved).forward_workspace(Bytes(row_sums(loss, tokens)));
    return;
  }
  loss_node(loss, std::move(operators), logits)
      .saves(logits)
      .gradient_in(logits)
      .forward_workspace(Bytes(row_sums(loss, tokens)))
      .backward_workspace(Bytes(row_sums_backward(loss, tokens)));
}

void add_whole(const Loss& loss, TensorId normed, const SharedInput& shared) {
  const TensorId logits =
      loss.b.tensor("logits", loss.of_logits(1.0, loss.element), TensorRole::Logits);
  loss.b.column_gemm({Module::Head, loss.weight(), head_linear(loss)}, shared, normed, {logits},
                     true);
  if (loss.strategy.fused_cross_entropy) return add_fused(loss, logits);
  LayerOperators operators =
      entropy_of(loss, cross_entropy_traffic(loss.framework, loss.element), 1);
  return loss.b.autograd() ? add_autograd(loss, std::move(operators), logits)
                           : add_plain(loss, std::move(operators), logits);
}

}  // namespace

void add_loss(LayerBuilder& layer, TensorId normed, std::int64_t tokens,
              const SharedInput& shared) {
  const Loss loss{layer, tokens};
  const FusedLoss fused = layer.framework.loss.fused;
  const bool chunked = layer.strategy.fused_cross_entropy &&
                       (fused == FusedLoss::Gradient || fused == FusedLoss::Recomputed);
  chunked ? add_chunked(loss, normed, shared) : add_whole(loss, normed, shared);
}

std::int64_t loss_chunks(const Transformer& model, const Framework& framework,
                         std::int64_t tokens) {
  if (framework.loss.chunks > 0) return std::min<std::int64_t>(framework.loss.chunks, tokens);
  const std::int64_t at_least = ceil_div(tokens, ceil_div(model.vocab_size, model.hidden_size));
  return ceil_div(tokens,
                  static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least))));
}

}  // namespace llmsim::sim
