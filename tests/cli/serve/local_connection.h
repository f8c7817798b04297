// A client of a local server that sends what it is told to, byte by byte if need be.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

namespace llmsim::cli::serve {

class LocalConnection {
 public:
  explicit LocalConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    is_open_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  LocalConnection(const LocalConnection&) = delete;
  LocalConnection& operator=(const LocalConnection&) = delete;
  ~LocalConnection() { ::close(socket_); }

  bool is_open() const { return is_open_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  // One piece of it; empty at its end.
  std::string received_piece() {
    std::array<char, 65536> piece{};
    const ssize_t count = ::recv(socket_, piece.data(), piece.size(), 0);
    return std::string(piece.data(), count > 0 ? static_cast<std::size_t>(count) : 0U);
  }
  std::string received() {
    std::string all;
    for (std::string piece = received_piece(); !piece.empty(); piece = received_piece())
      all += piece;
    return all;
  }

 private:
  int socket_;
  bool is_open_ = false;
};

// The whole answer to one request.
inline std::string answer_at(int port, std::string_view request) {
  LocalConnection connection(port);
  connection.send(request);
  return connection.received();
}

inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

inline std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

// "GET PATH" for the host of a port, with further headers, each with its line end.
inline std::string get(int port, const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" + headers +
         "\r\n";
}

inline std::string post(int port, const std::string& path, const std::string& body,
                        const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
         "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

}  // namespace llmsim::cli::serve
