#include "sim/hardware/cluster.h"

namespace llmsim::sim {

const char* name_of(FabricKind kind) {
  switch (kind) {
    case FabricKind::Switch: return "switch";
    case FabricKind::Mesh: return "mesh";
    case FabricKind::Paired: return "paired";
    case FabricKind::Torus: return "torus";
    case FabricKind::Host: return "host";
  }
  return "";
}

}  // namespace llmsim::sim
