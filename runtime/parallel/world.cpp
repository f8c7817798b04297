#include "runtime/parallel/world.h"

#include <array>
#include <cstdlib>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/parallel/gloo_communicator.h"
#include "runtime/parallel/nccl_communicator.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "127.0.0.1";
  return text.data();
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) throw Error("cannot list the network interfaces of this machine");
  std::string found, names;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if (name == one->ifa_name) found = text_of(one->ifa_addr, sizeof(sockaddr_in));
    names += (names.empty() ? "" : ", ") + std::string(one->ifa_name);
  }
  freeifaddrs(all);
  if (found.empty())
    throw Error("GLOO_SOCKET_IFNAME = " + name + " is no interface of this machine: it has " +
                names);
  return found;
}

// A datagram socket that is connected sends nothing, but has chosen its own address.
std::string own_address_towards(const addrinfo& peer) {
  const int socket = ::socket(peer.ai_family, SOCK_DGRAM, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool known = socket >= 0 && connect(socket, peer.ai_addr, peer.ai_addrlen) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  if (socket >= 0) close(socket);
  return known ? text_of(reinterpret_cast<sockaddr*>(&own), size) : "127.0.0.1";
}

KeyStore store_of(const ProcessPlace& place, std::chrono::milliseconds timeout) {
  return reach_store(place.store_host, place.store_port, place.keeps_store, place.attempt, timeout);
}

}  // namespace

World::World(const ProcessPlace& place, Transport transport, std::chrono::milliseconds timeout)
    : transport_(transport),
      timeout_(timeout),
      roll_call_(std::make_shared<RollCall>(store_of(place, timeout), place.rank, place.ranks,
                                            host_name())),
      address_(address_towards(place.store_host)) {
  roll_call_->meet("world", all_ranks(place.ranks), timeout);
}

std::unique_ptr<Communicator> World::connect(const GroupMembers& members) const {
  if (transport_ == Transport::Nccl) return nccl_communicator(roll_call_, members, timeout_);
  return gloo_communicator(roll_call_, members, {.address = address_, .timeout = timeout_});
}

std::unique_ptr<Communicator> World::connect_all() const {
  return connect({.ranks = all_ranks(size()), .place = rank()});
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

std::string address_towards(const std::string& host) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
    return address_of_interface(interface);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), "29500", &hints, &found) != 0) {
    throw Error("MASTER_ADDR = " + host + " is no host that this machine knows");
  }
  const std::string address = own_address_towards(*found);
  freeaddrinfo(found);
  return address;
}

}  // namespace llmsim::runtime
