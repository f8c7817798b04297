// Shape-only kernels that older releases of libtorch lack: a training step on the meta device needs them.
#pragma once

namespace llmsim::runtime {

// Registers those that this libtorch does not have; later calls do nothing.
void install_meta_kernels();

}  // namespace llmsim::runtime
