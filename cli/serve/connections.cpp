#include "cli/serve/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::cli::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kPiece = std::size_t{1} << 16;
constexpr std::chrono::milliseconds kBetween{100};  // questions whether the server ends

// Waits until the socket can be read or written; false at the end of the time, or of the server.
bool waited(int socket, short events, Clock::time_point end, const std::function<bool()>& ending) {
  while (Clock::now() < end && !ending()) {
    pollfd file{socket, events, 0};
    if (::poll(&file, 1, static_cast<int>(kBetween.count())) > 0) return true;
  }
  return false;
}

// What can be read; empty at the end of the connection.
std::string read_piece(int socket) {
  std::string piece(kPiece, '\0');
  const ssize_t count = ::recv(socket, piece.data(), piece.size(), 0);
  piece.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return piece;
}

class SocketClient : public Client {
 public:
  SocketClient(int socket, const ServerOptions& options) : socket_(socket), options_(options) {}

  bool send(std::string_view piece) override {
    const bool first = !std::exchange(begun_, true);
    return (!first || send_bytes(head_of({.type = "application/x-ndjson"}, true))) &&
           send_bytes(piece);
  }

  bool is_gone() override {
    if (is_lost_ || options_.is_ending()) return true;
    char byte = 0;
    const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  bool send_bytes(std::string_view bytes) {
    const Clock::time_point end = Clock::now() + options_.limits.answer;
    while (!bytes.empty() && !is_lost_) {
      is_lost_ = !waited(socket_, POLLOUT, end, options_.is_ending);
      if (is_lost_) break;
      const ssize_t count =
          ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
      is_lost_ = count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    }
    return !is_lost_;
  }

 private:
  int socket_;
  const ServerOptions& options_;
  bool begun_ = false, is_lost_ = false;
};

// None where the connection ends before its request does.
std::optional<Request> request_from(int socket, const ServerOptions& options,
                                    SocketClient& client) {
  RequestReader reader(options.largest_body);
  Clock::time_point end = Clock::now() + options.limits.headers;
  bool is_whole = false;
  while (!is_whole) {
    if (!waited(socket, POLLIN, end, options.is_ending))
      throw Refusal{408, "the request took too long"};
    const std::string piece = read_piece(socket);
    if (piece.empty()) return std::nullopt;
    const bool had_headers = reader.has_headers();
    is_whole = reader.take(piece);
    if (had_headers || !reader.has_headers()) continue;
    end = Clock::now() + options.limits.body;
    if (!is_whole && reader.waits_for_continue())
      client.send_bytes("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return reader.request();
}

// Ends a connection so that what was sent is read: bytes that nobody reads would reset it.
void end_connection(int socket, const std::function<bool()>& ending) {
  constexpr std::chrono::seconds kLongest{2};
  ::shutdown(socket, SHUT_WR);
  const Clock::time_point end = Clock::now() + kLongest;
  while (waited(socket, POLLIN, end, ending) && !read_piece(socket).empty()) {
  }
}

void send_response(SocketClient& client, const Response& response, bool with_body) {
  if (response.sent) return;
  client.send_bytes(head_of(response, false) + (with_body ? response.body : ""));
}

void answer_connection(int socket, const ServerOptions& options) {
  SocketClient client(socket, options);
  try {
    const std::optional<Request> request = request_from(socket, options, client);
    if (!request) return;
    send_response(client, options.answer(*request, client), request->method != "HEAD");
  } catch (const Refusal& refusal) {
    send_response(client, {.status = refusal.status, .body = refusal.message + "\n"}, true);
  } catch (const std::exception&) {  // no memory, no thread
    send_response(client, {.status = 500}, true);
  }
  end_connection(socket, options.is_ending);
}

struct Connection {
  std::thread thread;
  std::shared_ptr<std::atomic<bool>> has_ended;
};

void join_ended(std::list<Connection>& connections) {
  for (Connection& connection : connections)
    if (*connection.has_ended) connection.thread.join();
  connections.remove_if([](const Connection& one) { return !one.thread.joinable(); });
}

void begin_connection(std::list<Connection>& connections, Descriptor socket,
                      const ServerOptions& options) {
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const auto shared = std::make_shared<const Descriptor>(std::move(socket));
  connections.push_back({std::thread([shared, has_ended, &options] {
                           answer_connection(shared->number(), options);
                           *has_ended = true;
                         }),
                         has_ended});
}

std::string place_text(const Place& place) {
  return "--address = " + place.address + ", --port = " + std::to_string(place.port) + ": ";
}

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

SocketAddress address_of(const Place& place) {
  SocketAddress address;
  auto* const four = reinterpret_cast<sockaddr_in*>(&address.bytes);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&address.bytes);
  if (inet_pton(AF_INET, place.address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(place.port));
    address.size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, place.address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(place.port));
    address.size = sizeof(sockaddr_in6);
  } else {
    throw Error("--address = " + Error::printable(place.address) +
                ": a numeric address is expected, such as 127.0.0.1");
  }
  return address;
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor listening(const Place& place) {
  const SocketAddress address = address_of(place);
  Descriptor listener(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const auto* const bytes = reinterpret_cast<const sockaddr*>(&address.bytes);
  if (listener.number() < 0 || ::bind(listener.number(), bytes, address.size) != 0 ||
      ::listen(listener.number(), SOMAXCONN) != 0)
    throw Error(place_text(place) + std::strerror(errno));
  return listener;
}

int port_of(const Descriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

void serve(const Descriptor& listener, const ServerOptions& options) {
  std::list<Connection> connections;
  while (!options.is_ending()) {
    if (!waited(listener.number(), POLLIN, Clock::now() + kBetween, options.is_ending)) {
      join_ended(connections);
      continue;
    }
    Descriptor socket(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    join_ended(connections);
    if (socket.number() < 0) std::this_thread::sleep_for(kBetween);  // as of too many files
    if (socket.number() >= 0 && connections.size() < kMostConnections)
      begin_connection(connections, std::move(socket), options);
  }
  for (Connection& connection : connections) connection.thread.join();
}

}  // namespace llmsim::cli::serve
