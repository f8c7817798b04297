// What kernels of an accelerator's libraries say of the device (runtime/measure/library_bench.h).
//
//   GEMMs         samples of every format, those with aligned rows and random data
//   misaligned    rate of GEMMs whose rows are an odd number of elements, relative to what the fit
//                 expects of aligned ones; and of those with even rows, relative to the odd ones
//   attention     samples of one implementation
//   clock         that of the units in 16-bit training steps over that of the GEMMs, as they were
//                 read; without readings, the rate of one GEMM that runs on and on, relative to
//                 what the fit expects of it
//   host link     rate of copies of pinned memory, 64 MiB or more, either way
#pragma once

#include <string>
#include <vector>

#include "calibrate/attention_fit.h"
#include "calibrate/figure.h"
#include "calibrate/gemm_fit.h"
#include "hwdb/runs/runtime_results.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {

// Elements of a row that is a multiple of 16 bytes.
int row_alignment(sim::DType dtype);

std::vector<GemmSample> library_gemms(const hwdb::RuntimeResults& results, sim::DType dtype);

struct MisalignedRates {
  std::vector<Repeated> odd;   // relative to aligned ones
  std::vector<Repeated> even;  // the same
};
// `fitted` has the coefficients of aligned GEMMs.
MisalignedRates misaligned_rates(const hwdb::RuntimeResults& results, sim::DType dtype,
                                 const sim::GemmMachine& fitted);

// `implementation` is "flash", "cudnn", or "blockwise" for the operators of the runtime itself.
std::vector<AttentionSample> attention_samples(const hwdb::RuntimeResults& results,
                                               sim::DType dtype, const std::string& implementation);

// Never above 1: a card that was hot when its kernels were measured is no hotter in a step.
std::vector<Repeated> sustained_clocks(const hwdb::RuntimeResults& results,
                                       const sim::GemmMachine& fitted);

std::vector<Repeated> host_link_rates(const hwdb::RuntimeResults& results);  // bytes/s

}  // namespace llmsim::calibrate
