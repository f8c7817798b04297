// Clock and power over time, as tools that watch devices print them.
//
//   nvidia-smi    timestamp, index, name, clocks.current.sm [MHz], power.draw [W], ...
//   dcgmi dmon    #Entity   SMCLK   POWER
//                 ID                W
//                 GPU 0     1980    651.204
//   amd-smi       gpu,socket_power,...,gfx_0_clk,gfx_0_max_clk,... (the mean of the parts of a
//                 device counts)
//   rocm-smi      device,sclk clock speed:,Average Graphics Package Power (W),GPU use (%)
//
// Names of columns differ from release to release: each role is a list of them.
//
// Private to hwdb.
#pragma once

#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/benchmarks/benchmark_lines.h"

namespace llmsim::hwdb {

bool is_clock_csv(const BenchmarkText& text);
void read_clock_csv(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                    BenchmarkFile& result);

bool is_dcgmi_log(const BenchmarkText& text);
void read_dcgmi_log(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                    BenchmarkFile& result);

}  // namespace llmsim::hwdb
