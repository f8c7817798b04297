// Times of GEMMs as benchmarks of matrix libraries print them.
//
//   hipblaslt-bench   [0]:transA,transB,grouped_gemm,batch_count,m,n,k,...,a_type,...,us
//                         T,N,0,1,8192,4096,8192,...,bf16_r,...,1234.5
//   rocblas-bench     transA,transB,M,N,K,...,rocblas-Gflops,us, where the number format is known
//                     with --log_datatype alone
//   mamf-finder           1 |  612.3(mean)  613.0(median)  625.9(max) @ 8192x4096x4096 | best: ...
//                     median: 741.0 TFLOPS @ 10240x4096x4096 (MxNxK)
//
// The libraries of AMD have matrices by columns: their m x n x k is the GEMM of n rows and m
// columns here.  Of mamf-finder the median counts; where it printed its shapes, the line of the
// best one says nothing more.
//
// Private to hwdb.
#pragma once

#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/benchmarks/benchmark_lines.h"

namespace llmsim::hwdb {

bool is_gemm_table(const BenchmarkText& text);
void read_gemm_table(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                     BenchmarkFile& result);

bool is_mamf_log(const BenchmarkText& text);
void read_mamf_log(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                   BenchmarkFile& result);

}  // namespace llmsim::hwdb
