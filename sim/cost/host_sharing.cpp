#include "sim/cost/host_sharing.h"

namespace llmsim::sim {

HostShare host_share(const Cluster& cluster) {
  if (cluster.fabric.kind != FabricKind::Loopback) return {};
  const int processes = cluster.devices_on_a_node();
  const double others = processes - 1.0;
  const HostSharing& sharing = cluster.device.achieved.sharing;
  return {.gemms = 1.0 / (1.0 + others * sharing.gemms),
          .streaming = 1.0 / (1.0 + others * sharing.streaming),
          .cache = 1.0 / processes};
}

StreamingMachine streaming_machine(const Cluster& cluster, const StreamingForms& forms) {
  StreamingMachine machine = streaming_machine(cluster.device, forms);
  const HostShare share = host_share(cluster);
  machine.cache *= share.cache;
  for (auto* rates : {&machine.rates.forward, &machine.rates.backward}) {
    for (StreamingRate& rate : *rates) rate.streamed *= share.streaming;
  }
  return machine;
}

}  // namespace llmsim::sim
