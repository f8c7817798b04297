#include "cli/serve/admission.h"

#include <arpa/inet.h>

#include <algorithm>

namespace llmsim::cli::serve {
namespace {

bool is_ipv4(const std::string& address) {
  in_addr bytes{};
  return inet_pton(AF_INET, address.c_str(), &bytes) == 1;
}

bool is_ipv6(const std::string& address) {
  in6_addr bytes{};
  return inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

// "127.0.0.1" of "127.0.0.1:8080", "::1" of "[::1]:8080".
std::string name_of(const std::string& host) {
  if (host.starts_with('[')) {
    const std::size_t end = std::min(host.find(']'), host.size());
    return host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

bool is_served(const std::string& host, const Place& place) {
  const std::string name = name_of(host);
  const bool of_all = place.address == "0.0.0.0" || place.address == "::";
  if (of_all && (is_ipv4(name) || is_ipv6(name))) return true;
  if (of_all || is_loopback(place.address)) {
    if (name == "localhost") return true;
  }
  return name == place.address;
}

// A link to the page may stand anywhere.
bool opens_the_page(const Request& request) {
  return request.method == "GET" && request.path == "/" &&
         request.header("sec-fetch-mode") == "navigate";
}

bool is_of_another_site(const Request& request) {
  const std::string origin = request.header("origin"), site = request.header("sec-fetch-site");
  if (!origin.empty() && origin != "http://" + request.header("host")) return true;
  const bool own = site.empty() || site == "same-origin" || site == "none";
  return !own && !opens_the_page(request);
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address == "::1" || (is_ipv4(address) && address.starts_with("127."));
}

std::string host_of(const Place& place) {
  const std::string name = is_ipv6(place.address) ? "[" + place.address + "]" : place.address;
  return name + ":" + std::to_string(place.port);
}

std::optional<Refusal> refusal_of(const Request& request, const Place& place) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST")
    return Refusal{405, "GET, HEAD or POST is expected"};
  if (!is_served(request.header("host"), place))
    return Refusal{403, "another Host is served here: http://" + host_of(place) + "/"};
  if (is_of_another_site(request)) return Refusal{403, "a request of another site"};
  return std::nullopt;
}

}  // namespace llmsim::cli::serve
