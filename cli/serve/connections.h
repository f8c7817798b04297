// Connections of a local server: each has one request, a thread, and limits of size and time.
//
// A request whose headers take more than ten seconds, or its body more than a minute, is answered
// 408, however slowly its bytes drop in; more than 64 connections at a time are closed unread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/serve/admission.h"
#include "cli/serve/http.h"

namespace llmsim::cli::serve {

// An open file of the system, closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int number() const { return number_; }

 private:
  int number_;
};

struct TimeLimits {
  std::chrono::milliseconds headers{10000};
  std::chrono::milliseconds body{60000};    // from the end of the headers
  std::chrono::milliseconds answer{60000};  // for the client to take a piece of it
};

struct ServerOptions {
  std::size_t largest_body = 0;
  TimeLimits limits{};
  std::function<Response(const Request&, Client&)> answer{};
  std::function<bool()> is_ending{};  // asked some times a second
};

// Listens at a place whose port may be 0, any free one.  Throws Error "--address = ...: ..." for
// what is no numeric address, and for what cannot be listened at.
Descriptor listening(const Place& place);

// The port of a socket that listens.
int port_of(const Descriptor& listener);

// Answers all connections until it is ending, and then ends those that there are.
void serve(const Descriptor& listener, const ServerOptions& options);

}  // namespace llmsim::cli::serve
