// Times of collectives as nccl-tests and rccl-tests print them.
//
//   # nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
//   # Collective test starting: all_reduce_perf
//   # nThread 1 nGpus 8 minBytes 1048576 ...
//   #  Rank  0 Group  0 Pid  12345 on   node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
//   #  size   count   type   redop    root     time   algbw   busbw  #wrong     time ...
//       1048576  262144  float     sum      -1    41.5   25.27   44.22       0    41.2 ...
//
// Time, algbw, busbw and #wrong stand twice, out of place and in place: the first counts, or the
// second where the first was not run.  Ranks are the lines "# Rank", nodes the hosts that they
// name.  Several tables may stand in one file.  The collective is the one that the file names: the
// line of the test, the command, or the name of the file; else by what was added up (redop), by the
// root, and by busbw / algbw of n ranks, 2 (n - 1) / n for an all-reduce, (n - 1) / n for a
// reduce-scatter (NVIDIA/nccl-tests doc/PERFORMANCE.md).  An all-to-all is checked out of place
// only, an all-gather both ways.
//
// Private to hwdb.
#pragma once

#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/benchmarks/benchmark_lines.h"

namespace llmsim::hwdb {

bool is_collective_table(const BenchmarkText& text);
void read_collective_table(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                           BenchmarkFile& result);

// What option -J of the same programs writes.
bool is_collective_json(const BenchmarkText& text);
void read_collective_json(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                          BenchmarkFile& result);

}  // namespace llmsim::hwdb
