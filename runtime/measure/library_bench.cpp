#include "runtime/measure/library_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <torch/version.h>

#include "runtime/kernels/library_attention.h"
#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/clock_log.h"
#include "runtime/library/device.h"
#include "runtime/library/operator_call.h"
#include "runtime/measure/kernel_bench.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using Prepare = DeviceListing::Prepare;

json device_record(const std::string& kind, const std::string& name) {
  return {{"type", "kernel"}, {"key", kind + " " + name}, {"kind", kind}, {"label", name}};
}

constexpr sim::FlopsPerSecond kRoughRate{2e14};  // to expect times with

struct AttentionShape {
  std::int64_t sequences, tokens, heads, kv_heads, head_dim;

  double flops() const {  // forward, of the half that is not masked
    return 2.0 * static_cast<double>(sequences * heads * tokens * tokens * head_dim);
  }
  std::string text() const {
    return std::to_string(sequences) + "x" + std::to_string(tokens) + " " + std::to_string(heads) +
           "/" + std::to_string(kv_heads) + "x" + std::to_string(head_dim);
  }
  Heads random(const at::TensorOptions& options) const {
    return {.q = at::randn({sequences, heads, tokens, head_dim}, options),
            .k = at::randn({sequences, kv_heads, tokens, head_dim}, options),
            .v = at::randn({sequences, kv_heads, tokens, head_dim}, options)};
  }
};

// Sixteen thousand tokens, or one sequence that is longer; heads of Llama 3 and of GPT-2.
std::vector<AttentionShape> attention_shapes() {
  constexpr std::int64_t kTokens = 16384;
  std::vector<AttentionShape> shapes;
  for (const std::int64_t tokens : {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}) {
    const std::int64_t sequences = std::max<std::int64_t>(1, kTokens / tokens);
    shapes.push_back({sequences, tokens, 32, 8, 128});
    if (tokens <= kTokens) shapes.push_back({sequences, tokens, 32, 32, 128});
    if (tokens <= 2 * kTokens) shapes.push_back({sequences, tokens, 16, 16, 64});
  }
  return shapes;
}

void add_attention(DeviceListing& all, AttentionKernels kernels, const AttentionShape& shape,
                   bool backward) {
  const std::string pass = pass_name(backward);
  json described = device_record("library_attention",
                                 std::string(name_of(kernels)) + " " + pass + " " + shape.text());
  described.update({{"attention", name_of(kernels)},
                    {"pass", pass},
                    {"dtype", "bf16"},
                    {"batch", shape.sequences * shape.heads},
                    {"m", shape.tokens},
                    {"n", shape.tokens},
                    {"k", shape.head_dim},
                    {"heads", shape.heads},
                    {"kv_heads", shape.kv_heads},
                    {"causal", true},
                    {"flops", (backward ? 2.5 : 1.0) * shape.flops()}});
  all.add(described, [=, options = all.fp32().dtype(at::kBFloat16)]() -> std::function<void()> {
    const Heads heads = shape.random(options);
    if (!backward) return [=] { library_attention(kernels, heads); };
    const AttentionOutput forward = library_attention(kernels, heads);
    const at::Tensor dout = at::randn(forward.o.sizes(), options);
    return [=] { library_attention_backward(kernels, dout, heads, forward); };
  });
}

// The GEMMs of a linear layer: its output from m rows of k inputs; the gradient of its inputs; the
// gradient of its weight, summed over k rows.
enum class GemmForm { Forward, DataGradient, WeightGradient };
constexpr const char* kFormNames[] = {"forward", "dgrad", "wgrad"};

struct GemmShape {
  std::int64_t m, n, k;
  GemmForm form = GemmForm::Forward;

  std::string text() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
           (form == GemmForm::Forward ? "" : std::string(" ") + kFormNames[static_cast<int>(form)]);
  }
};

// Squares, and GEMMs of Llama 3 8B and 70B and of GPT-2 XL: m tokens, n outputs, k inputs.
constexpr GemmShape kGemmShapes[] = {
    {8192, 8192, 8192},   {4096, 4096, 4096},    {2048, 2048, 2048},  {1024, 1024, 1024},
    {512, 512, 512},      {16384, 16384, 16384}, {8192, 6144, 4096},  {8192, 4096, 4096},
    {8192, 28672, 4096},  {8192, 4096, 14336},   {28672, 4096, 8192}, {4096, 14336, 8192},
    {8192, 128256, 4096}, {4096, 10240, 8192},   {4096, 57344, 8192}, {4096, 8192, 28672},
    {8192, 4800, 1600},   {8192, 6400, 1600},    {8192, 1600, 6400},  {8192, 50304, 1600},
    {8192, 50257, 1600},  {8192, 50257, 768},    {64, 4096, 4096},    {256, 4096, 4096},
    {1024, 4096, 4096},   {1000, 1000, 1000},    {4095, 4095, 4095},  {4100, 4100, 4100}};

// Sizes that rows of 16 bytes do not divide: by 1, 2 and 4 elements more, in each place and form.
std::vector<GemmShape> misaligned_shapes() {
  std::vector<GemmShape> shapes;
  for (const std::int64_t side : {2048, 8192}) {
    for (const GemmForm form :
         {GemmForm::Forward, GemmForm::DataGradient, GemmForm::WeightGradient}) {
      shapes.push_back({side, side, 4096, form});
      for (const std::int64_t more : {1, 2, 4}) {
        shapes.push_back({side + more, side, 4096, form});
        shapes.push_back({side, side + more, 4096, form});
        shapes.push_back({side, side, 4096 + more, form});
      }
    }
  }
  for (const GemmShape head : {GemmShape{8192, 768, 50257, GemmForm::DataGradient},
                               {50257, 768, 8192, GemmForm::WeightGradient},
                               {8192, 768, 50304, GemmForm::DataGradient},
                               {50304, 768, 8192, GemmForm::WeightGradient}})
    shapes.push_back(head);
  return shapes;
}

json gemm_record(const std::string& dtype, const GemmShape& shape, bool zeros) {
  json described =
      device_record("library_gemm", dtype + " " + shape.text() + (zeros ? " zeros" : ""));
  described.update({{"dtype", dtype},
                    {"m", shape.m},
                    {"n", shape.n},
                    {"k", shape.k},
                    {"form", kFormNames[static_cast<int>(shape.form)]},
                    {"data", zeros ? "zeros" : "normal"},
                    {"flops", 2.0 * static_cast<double>(shape.m * shape.n * shape.k)}});
  return described;
}

at::Tensor operand(std::int64_t rows, std::int64_t columns, const at::TensorOptions& options,
                   bool zeros) {
  return zeros ? at::zeros({rows, columns}, options) : at::randn({rows, columns}, options);
}

// Products of fp32 values by units that round them to 19 bits.
class WithTf32 {
 public:
  WithTf32() : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(true);
  }
  ~WithTf32() { at::globalContext().setAllowTF32CuBLAS(before_); }
  WithTf32(const WithTf32&) = delete;
  WithTf32& operator=(const WithTf32&) = delete;

 private:
  bool before_;
};

void add_plain_gemm(DeviceListing& all, const char* dtype, at::ScalarType type,
                    const GemmShape& shape, bool zeros) {
  all.add(gemm_record(dtype, shape, zeros), [=, options = all.fp32().dtype(type)] {
    const bool forward = shape.form == GemmForm::Forward;
    at::Tensor a = shape.form == GemmForm::WeightGradient
                       ? operand(shape.k, shape.m, options, zeros).t()
                       : operand(shape.m, shape.k, options, zeros);
    at::Tensor b = forward ? operand(shape.n, shape.k, options, zeros).t()
                           : operand(shape.k, shape.n, options, zeros);
    const auto rounded = type == at::kFloat ? std::make_shared<WithTf32>() : nullptr;
    return [=] {
      static_cast<void>(rounded);  // as long as the call is there
      at::mm(a, b);
    };
  });
}

void add_plain_gemms(DeviceListing& all, const GemmShape& shape, bool zeros) {
  add_plain_gemm(all, "bf16", at::kBFloat16, shape, zeros);
  if (zeros) return;
  add_plain_gemm(all, "fp16", at::kHalf, shape, zeros);
  add_plain_gemm(all, "tf32", at::kFloat, shape, zeros);
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
constexpr auto kLowPrecision = at::kFloat8_e4m3fn;

void add_fp8(DeviceListing& all, const GemmShape& shape, bool zeros) {
  if (shape.n % kLowPrecisionMultiple != 0 || shape.k % kLowPrecisionMultiple != 0) return;
  const at::TensorOptions options = all.fp32();
  all.add(gemm_record("fp8", shape, zeros), [=] {
    const at::Tensor a = operand(shape.m, shape.k, options, zeros).to(kLowPrecision),
                     b = operand(shape.n, shape.k, options, zeros).to(kLowPrecision).t();
    const at::Tensor one = at::ones({}, options);
    return [=] {
      call_operator("aten::_scaled_mm",
                    {a, b, one, one, c10::IValue(), c10::IValue(), at::kBFloat16});
    };
  });
}

void add_fp8_casts(DeviceListing& all) {
  const at::TensorOptions options = all.fp32();
  for (const std::int64_t n : {2048, 4096, 8192}) {
    all.add("fp8_quantise", std::to_string(n), 3.0 * static_cast<double>(n * n), [=] {
      const at::Tensor x = at::randn({n, n}, options.dtype(at::kBFloat16));
      return [=] { x.to(kLowPrecision); };
    });
  }
}
#else
void add_fp8(DeviceListing&, const GemmShape&, bool) {}
void add_fp8_casts(DeviceListing&) {}
#endif

// The median of times of calls in a row, of a part of them.
Timing part_of(const std::vector<sim::Seconds>& times, std::size_t begin, std::size_t end,
               int calls) {
  Timing timing = summary({times.begin() + static_cast<std::ptrdiff_t>(begin),
                           times.begin() + static_cast<std::ptrdiff_t>(end)});
  timing.median /= calls;
  timing.calls = calls;
  return timing;
}

// A card that multiplies for long gets hot, and reaches its power limit.
void measure_sustained(json& record, c10::Device device, sim::Seconds length) {
  constexpr int kCalls = 40, kBurst = 10, kSide = 8192;
  const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(device);
  const at::Tensor a = at::randn({kSide, kSide}, options), b = at::randn({kSide, kSide}, options);
  at::Tensor c = at::empty({kSide, kSide}, options);
  at::mm_out(c, a, b);
  synchronize(device);
  std::vector<sim::Seconds> times;
  ClockSummary burst, late;
  auto clock = std::make_unique<ClockLog>(device);
  for (sim::Seconds spent; spent < length || times.size() < 2 * kBurst;) {
    times.push_back(timed(device, [&] {
      for (int i = 0; i < kCalls; ++i) at::mm_out(c, a, b);
    }));
    spent += times.back();
    if (times.size() != kBurst) continue;
    burst = clock->stop();
    clock = std::make_unique<ClockLog>(device);
  }
  add_clock(record, clock->stop());
  add_timing(record, part_of(times, times.size() / 2, times.size(), kCalls));
  record["burst_s"] = part_of(times, 0, kBurst, kCalls).median.value();
  if (burst.clock_hz) record["burst_clock_hz"] = *burst.clock_hz;
  if (burst.watts) record["burst_watts"] = *burst.watts;
}

}  // namespace

void DeviceListing::add(const json& described, Prepare prepare) {
  list.push_back({described.at("key"), [=, on = device](const RepeatOptions& options) {
                    json record = described;
                    with_outcome(record, on, [&] {
                      const std::function<void()> call = prepare();
                      ClockLog clock(on);
                      const Timing timing = timed_calls(on, call, options);
                      add_clock(record, clock.stop());
                      add_timing(record, timing);
                    });
                    return record;
                  }});
}

void DeviceListing::add(const std::string& kind, const std::string& name, double moved_bytes,
                        Prepare prepare, int times) {
  json described = device_record(kind, name);
  described.update({{"moved_bytes", moved_bytes}, {"kernels", times}});
  add(described, std::move(prepare));
}

void add_library_gemms(DeviceListing& all) {
  if (!all.on_accelerator()) return;
  const bool fp8 = has_low_precision_gemms(all.device);
  for (const GemmShape& shape : kGemmShapes) {
    const bool largest_square = shape.m == 8192 && shape.n == 8192;
    for (const bool zeros : {false, true}) {
      if (zeros && !largest_square) continue;
      add_plain_gemms(all, shape, zeros);
      if (fp8) add_fp8(all, shape, zeros);
    }
  }
  for (const GemmShape& shape : misaligned_shapes())
    add_plain_gemm(all, "bf16", at::kBFloat16, shape, false);
  if (fp8) add_fp8_casts(all);
}

void add_library_attention(DeviceListing& all, sim::Seconds longest) {
  for (const AttentionShape& shape : attention_shapes()) {
    for (const AttentionKernels kernels :
         {AttentionKernels::Flash, AttentionKernels::Cudnn, AttentionKernels::Efficient}) {
      if (!has_attention_kernels(kernels, all.device)) continue;
      for (const bool backward : {false, true}) {
        if ((backward ? 2.5 : 1.0) * shape.flops() / kRoughRate.value() > longest.value()) continue;
        add_attention(all, kernels, shape, backward);
      }
    }
  }
}

void add_sustained(DeviceListing& all, sim::Seconds length) {
  if (!all.on_accelerator()) return;
  json described = device_record("sustained_gemm", "bf16 8192x8192x8192");
  described.update({{"dtype", "bf16"},
                    {"m", 8192},
                    {"n", 8192},
                    {"k", 8192},
                    {"flops", 2.0 * std::pow(8192.0, 3)}});
  all.list.push_back({described.at("key"), [=, on = all.device](const RepeatOptions&) {
                        json record = described;
                        with_outcome(record, on, [&] { measure_sustained(record, on, length); });
                        return record;
                      }});
}

}  // namespace llmsim::runtime
