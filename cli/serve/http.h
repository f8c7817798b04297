// HTTP/1.1 as the local server speaks it: one request on a connection, read whole within limits.
//
// Boost.Beast parses requests.  Source: RFC 9110 and RFC 9112, 2022.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmsim::cli::serve {

struct Request {
  std::string method = "GET";
  std::string path = "/";                        // of the target, before "?", as it was sent
  std::string query{};                           // after it
  std::map<std::string, std::string> headers{};  // by names in lower case
  std::string body{};

  // Empty where there is none.
  std::string header(const std::string& name) const;
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
  bool sent = false;  // in pieces, while it was made (Client::send)
};

// A request that is not answered, and why.
struct Refusal {
  int status;
  std::string message;
};

// Who asked, while his answer is made.
class Client {
 public:
  virtual ~Client() = default;
  // Sends a piece of a response that is sent while it is made, as lines of JSON.  False where
  // nobody reads it.
  virtual bool send(std::string_view piece) = 0;
  // Whether nobody waits for the answer: the connection is closed, or the server ends.
  virtual bool is_gone() = 0;
};

// A request from its pieces.
class RequestReader {
 public:
  explicit RequestReader(std::size_t largest_body);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;
  ~RequestReader();

  // Whether it is whole.  Throws Refusal: 400 for what is no request, 413 for a body and 431 for
  // headers (16 KiB) that are too large.
  bool take(std::string_view piece);
  bool has_headers() const;
  // Whether the client sends the body once it hears that it may (Expect: 100-continue).
  bool waits_for_continue() const;
  // Requires that it is whole.  Throws Refusal 400 for what this server does not read.
  Request request() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// The status line and the headers; every one forbids what pages of this server do not need.  The
// length is left out of what is sent in pieces, which ends with the connection.
std::string head_of(const Response& response, bool in_pieces);

}  // namespace llmsim::cli::serve
