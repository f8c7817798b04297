#include "runtime/model/token_stream.h"

#include <random>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

// One token in this many is drawn at random.
constexpr int kNoise = 10;

void write_sequence(std::int64_t* ids, std::int64_t* targets, std::int64_t length,
                    std::int64_t vocab, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::int64_t token = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocab));
  for (std::int64_t i = 0; i < length; ++i) {
    ids[i] = token;
    token = random() % kNoise == 0
                ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocab))
                : (5 * token + 3) % vocab;
    targets[i] = token;
  }
}

}  // namespace

MicroBatch TokenStream::sequences(std::int64_t first, std::int64_t count, c10::Device device,
                                  WantedTokens wanted) const {
  const at::TensorOptions ids(at::kLong);
  if (device.is_meta()) {
    const auto shape = [&](bool wants) {
      return wants ? at::empty({count * seq_len_}, ids.device(device)) : at::Tensor();
    };
    return {.ids = shape(wanted.ids), .targets = shape(wanted.targets)};
  }
  MicroBatch batch{.ids = at::empty({count * seq_len_}, ids),
                   .targets = at::empty({count * seq_len_}, ids)};
  for (std::int64_t i = 0; i < count; ++i) {
    write_sequence(batch.ids.data_ptr<std::int64_t>() + i * seq_len_,
                   batch.targets.data_ptr<std::int64_t>() + i * seq_len_, seq_len_, vocab_,
                   seed_ * 1'000'003 + static_cast<std::uint64_t>(first + i));
  }
  const auto there = [&](bool wants, const at::Tensor& tokens) {
    return wants ? tokens.to(device) : at::Tensor();
  };
  return {.ids = there(wanted.ids, batch.ids), .targets = there(wanted.targets, batch.targets)};
}

}  // namespace llmsim::runtime
