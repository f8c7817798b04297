#include "cli/serve/connections.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/serve/site.h"
#include "tests/cli/serve/local_connection.h"
#include "tests/error_of.h"

namespace llmsim::cli::serve {
namespace {

using std::chrono::milliseconds;

// A server on a free port of this process, until it goes.
class LocalServer {
 public:
  explicit LocalServer(ServerOptions options)
      : listener_(listening({"127.0.0.1", 0})), options_(std::move(options)) {
    options_.is_ending = [this] { return ends_.load(); };
    thread_ = std::thread([this] { serve(listener_, options_); });
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  ~LocalServer() {
    ends_ = true;
    thread_.join();
  }

  int port() const { return port_of(listener_); }

 private:
  Descriptor listener_;
  ServerOptions options_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

Response echo(const Request& request, Client&) { return {.body = request.path + request.body}; }

TEST(Connections, AnswerOneRequestEach) {
  const LocalServer server({.largest_body = 100, .answer = echo});
  const std::string answer = answer_at(server.port(), post(server.port(), "/a", "hello"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_EQ(body_of(answer), "/ahello");
  EXPECT_EQ(status_of(answer_at(server.port(), "no request\r\n\r\n")), 400);
  EXPECT_EQ(body_of(answer_at(server.port(), "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")), "");
}

TEST(Connections, ABodyThatIsTooLargeIsRefusedBeforeItIsRead) {
  const LocalServer server({.largest_body = 100, .answer = echo});
  EXPECT_EQ(status_of(answer_at(server.port(), post(server.port(), "/", std::string(101, 'x')))),
            413);
  EXPECT_EQ(
      status_of(answer_at(server.port(),
                          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")),
      413);
}

// However slowly bytes drop in, all of them have one time.
TEST(Connections, ARequestThatDropsInIsEnded) {
  const LocalServer server({.largest_body = 100,
                            .limits = {.headers = milliseconds(400), .body = milliseconds(400)},
                            .answer = echo});
  for (const std::string& begin :
       {std::string("GET / HTTP/1.1\r\nHost: a\r\nX: "),
        std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")}) {
    LocalConnection connection(server.port());
    connection.send(begin);
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(milliseconds(100));
      connection.send("x");
    }
    EXPECT_EQ(status_of(connection.received()), 408) << begin;
  }
}

TEST(Connections, TellWhoSendsALargeBodyToContinue) {
  const LocalServer server({.largest_body = 100, .answer = echo});
  LocalConnection connection(server.port());
  connection.send(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(connection.received_piece(), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.send("ab");
  EXPECT_EQ(body_of(connection.received()), "/ab");
}

TEST(Connections, PiecesAreSentWhileAnAnswerIsMade) {
  std::atomic<bool> has_ended = false;
  const LocalServer server({.largest_body = 100, .answer = [&](const Request&, Client& client) {
                              client.send("one\n");
                              while (!client.is_gone())
                                std::this_thread::sleep_for(milliseconds(10));
                              has_ended = true;
                              return Response{.sent = true};
                            }});
  {
    LocalConnection connection(server.port());
    connection.send(get(server.port(), "/"));
    std::string answer;
    while (!answer.ends_with("one\n")) answer += connection.received_piece();
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_FALSE(has_ended);
  }  // nobody waits
  for (int i = 0; i < 500 && !has_ended; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(has_ended);
}

TEST(Connections, MoreThan64AreClosedUnread) {
  const LocalServer server({.largest_body = 100, .answer = echo});
  std::vector<std::unique_ptr<LocalConnection>> open;
  for (int i = 0; i < 64; ++i) open.push_back(std::make_unique<LocalConnection>(server.port()));
  EXPECT_EQ(answer_at(server.port(), get(server.port(), "/")), "");
  open.clear();
  int status = 0;
  for (int i = 0; i < 100 && status != 200; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    status = status_of(answer_at(server.port(), get(server.port(), "/")));
  }
  EXPECT_EQ(status, 200);
}

TEST(Listening, ANumericAddressIsExpected) {
  EXPECT_NE(error_of([] {
              listening({"localhost", 0});
            }).find("a numeric address is expected"),
            std::string::npos);
  const Descriptor first = listening({"127.0.0.1", 0});
  EXPECT_NE(error_of([&] { listening({"127.0.0.1", port_of(first)}); }), "");
}

// A request with some bytes changed, left out and repeated.
std::string garbled(std::string text, std::mt19937& random) {
  const int changes = static_cast<int>(random() % 8);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0: text[at] = static_cast<char>(random() % 256); break;
      case 1: text.erase(at, random() % 20); break;
      case 2: text.insert(at, text.substr(at, random() % 20)); break;
      default: text.resize(at); break;
    }
  }
  return text;
}

// No command runs: of this process there is none.
TEST(Connections, OutliveTwoHundredMalformedRequests) {
  CLI::App program;
  int status = 0;
  add_plan(program, status);
  std::unique_ptr<Site> site;
  const LocalServer server({.largest_body = 1000,
                            .limits = {milliseconds(50), milliseconds(50), milliseconds(50)},
                            .answer = [&](const Request& request, Client& client) {
                              return site->answer(request, client);
                            }});
  site = std::make_unique<Site>(program, SiteOptions{.place = {"127.0.0.1", server.port()}});
  const std::vector<std::string> requests{
      get(server.port(), "/"), get(server.port(), "/answers/0123456789abcdef0123456789abcdef"),
      post(server.port(), "/ask", "kind=nothing&model=%00&options=%27"),
      "POST /ask HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
          "\r\nContent-Type: multipart/form-data; boundary=X\r\nContent-Length: 72\r\n\r\n--X\r\n"
          "Content-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\nc\r\n--X--"};
  std::mt19937 random(20261129);
  for (int i = 0; i < 200; ++i) {
    LocalConnection connection(server.port());
    ASSERT_TRUE(connection.is_open()) << i;
    connection.send(garbled(requests[static_cast<std::size_t>(i) % requests.size()], random));
    if (random() % 4 != 0) connection.received();
  }
  EXPECT_EQ(status_of(answer_at(server.port(), get(server.port(), "/"))), 200);
}

}  // namespace
}  // namespace llmsim::cli::serve
