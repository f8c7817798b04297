#include "cli/serve/http.h"

#include <gtest/gtest.h>

#include <string>

namespace llmsim::cli::serve {
namespace {

constexpr const char* kPost =
    "POST /ask?kind=plan HTTP/1.1\r\nHost: a:1\r\nX-Text: One\r\nContent-Length: 5\r\n\r\nhello";

int refused(const std::string& bytes, std::size_t largest = 100) {
  try {
    RequestReader reader(largest);
    if (reader.take(bytes)) reader.request();
    return 0;
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
}

TEST(RequestReader, ReadsTargetHeadersAndBody) {
  RequestReader reader(100);
  ASSERT_TRUE(reader.take(kPost));
  const Request request = reader.request();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/ask");
  EXPECT_EQ(request.query, "kind=plan");
  EXPECT_EQ(request.header("x-text"), "One");
  EXPECT_EQ(request.header("no-such"), "");
  EXPECT_EQ(request.body, "hello");
}

TEST(RequestReader, PiecesOfAnySizeAreTheSameRequest) {
  RequestReader reader(100);
  const std::string bytes = kPost;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) EXPECT_FALSE(reader.take(bytes.substr(i, 1)));
  EXPECT_TRUE(reader.has_headers());
  ASSERT_TRUE(reader.take(bytes.substr(bytes.size() - 1)));
  EXPECT_EQ(reader.request().body, "hello");
}

TEST(RequestReader, ChunksAreOneBody) {
  RequestReader reader(100);
  ASSERT_TRUE(reader.take(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc"
      "\r\n0\r\n\r\n"));
  EXPECT_EQ(reader.request().body, "abc");
}

TEST(RequestReader, RefusesWhatIsTooLargeOrNoRequest) {
  EXPECT_EQ(refused(kPost), 0);
  EXPECT_EQ(refused(kPost, 4), 413);
  EXPECT_EQ(
      refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", 4),
      413);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20000, 'x')), 431);
  EXPECT_EQ(refused("hello\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n\r\n"), 400);                        // no Host
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);  // two
  EXPECT_EQ(refused("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);     // no path
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"), 400);
}

TEST(RequestReader, WaitsForContinueWhereItSaysSo) {
  RequestReader reader(100);
  EXPECT_FALSE(reader.waits_for_continue());
  reader.take("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_TRUE(reader.waits_for_continue());
}

TEST(HeadOf, HasALengthUnlessItIsSentInPieces) {
  const Response response{.status = 404, .body = "four", .headers = {{"Allow", "GET"}}};
  const std::string head = head_of(response, false);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n")) << head;
  EXPECT_NE(head.find("\r\nContent-Length: 4\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nAllow: GET\r\n\r\n"), std::string::npos);
  EXPECT_EQ(head_of(response, true).find("Content-Length"), std::string::npos);
}

}  // namespace
}  // namespace llmsim::cli::serve
