// How long work takes on a device: events in its stream on accelerators, the host's clock on the CPU.
//
// Where a libtorch has no elapsed time between events, the host's clock is read around a synchronised piece of work instead.
#pragma once

#include <functional>

#include <c10/core/Device.h>

#include "sim/base/quantity.h"

namespace llmsim::runtime {

// Until all work that was put on the device is done.
void synchronize(c10::Device device);

// Time of `work`, which puts kernels on the current stream of `device`.
sim::Seconds timed(c10::Device device, const std::function<void()>& work);

}  // namespace llmsim::runtime
