// Where the weights of units are between their passes, and how a unit has whole ones for the time of a pass.
#pragma once

#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/parameter_unit.h"

namespace llmsim::runtime {

class UnitWeights {
 public:
  virtual ~UnitWeights() = default;

  // Takes over a unit with whole weights in fp32; gives what this rank updates of it, with states and without a gradient.
  virtual AdamWSlice adopt(ParameterUnit& unit) = 0;

  virtual void begin_pass(const std::vector<ParameterUnit*>& units) = 0;
  virtual void lend(ParameterUnit& unit) = 0;
  virtual void after_forward(ParameterUnit& unit) = 0;
  virtual void take_back(ParameterUnit& unit) = 0;
  // This rank's pieces have been updated.
  virtual void updated() = 0;
};

}  // namespace llmsim::runtime
