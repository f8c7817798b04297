// Rates of copies, in the memory of a device and over its link to the host.
//
//   BabelStream    Function    MBytes/sec  Min (sec)   Max         Average
//                  Copy        2901234.5   0.00018     ...
//                  or, with --csv, function,num_times,n_elements,sizeof,max_mbytes_per_sec,...
//   nvbandwidth    Running host_to_device_memcpy_ce.
//                  memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
//                             0         1
//                   0     55.61     55.60
//                  or the same as JSON (-j)
//
// BabelStream moves two arrays in Copy and Mul, three in Add and Triad, and prints the rate of its
// fastest run; Dot writes nothing and does not count.  nvbandwidth copies 512 MiB unless it is
// asked for other sizes, and counts a byte that it moves inside of a device once, though it is read
// and written.
//
// Private to hwdb.
#pragma once

#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/benchmarks/benchmark_lines.h"

namespace llmsim::hwdb {

bool is_babelstream(const BenchmarkText& text);
void read_babelstream(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                      BenchmarkFile& result);

bool is_nvbandwidth(const BenchmarkText& text);
void read_nvbandwidth(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                      BenchmarkFile& result);

}  // namespace llmsim::hwdb
