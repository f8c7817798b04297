// Tokens that a model can learn: each follows from the one before by a fixed rule,
// except for some noise.
//
// A pipeline stage needs the ids with the embedding and the targets with the head, and holds no
// others.  Sequence i is the same whoever asks for it, so that the global batch of a step does not
// depend on how it is divided.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

struct MicroBatch {
  at::Tensor ids;      // (b s), int64
  at::Tensor targets;  // (b s): the token after each
};

// Which of the two a rank wants; the other stays undefined.
struct WantedTokens {
  bool ids = true;
  bool targets = true;
};

class TokenStream {
 public:
  TokenStream(std::int64_t vocab, std::int64_t seq_len, std::uint64_t seed)
      : vocab_(vocab), seq_len_(seq_len), seed_(seed) {}

  // Sequences first, first + 1, ..., on `device`; on the meta device shapes alone.
  MicroBatch sequences(std::int64_t first, std::int64_t count, c10::Device device,
                       WantedTokens wanted) const;

 private:
  std::int64_t vocab_, seq_len_;
  std::uint64_t seed_;
};

}  // namespace llmsim::runtime
