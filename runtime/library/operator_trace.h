// What a piece of a step really executed, seen by intercepting the tensor library's operators on
// the calling thread.
//
// FLOPs are counted on the GEMMs themselves (mm, addmm, bmm, baddbmm and their in-place and out
// forms, _scaled_mm) from the shapes of their arguments: 2 m n k for each of the batch.  Blockwise
// attention is one operator: its GEMMs are counted together as the scores that the mask lets
// through, which is what the simulator calls its useful work.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <c10/util/Optional.h>

namespace llmsim::runtime {

struct OperatorCount {
  std::int64_t calls = 0;
  std::int64_t flops = 0;
};

// Counts from construction to destruction.  One at a time on a thread; costs about a microsecond an
// operator, so never in a timed step.
class OperatorTrace {
 public:
  OperatorTrace();
  ~OperatorTrace();
  OperatorTrace(const OperatorTrace&) = delete;
  OperatorTrace& operator=(const OperatorTrace&) = delete;

  // By the library's name: "aten::mm", "llmsim::attention".
  const std::map<std::string, OperatorCount>& counts() const { return counts_; }
  std::int64_t flops() const;
  std::int64_t gemm_flops() const;       // of the GEMMs alone
  std::int64_t attention_flops() const;  // of blockwise attention

  void add(const std::string& name, std::int64_t flops);

 private:
  std::map<std::string, OperatorCount> counts_;
  std::uint64_t callback_;
};

// While it lives, GEMMs on this thread count as nothing of their own and `flops` as one operator of
// that name.
class CountedAs {
 public:
  CountedAs(const char* name, std::int64_t flops);
  ~CountedAs();
  CountedAs(const CountedAs&) = delete;
  CountedAs& operator=(const CountedAs&) = delete;
};

}  // namespace llmsim::runtime
