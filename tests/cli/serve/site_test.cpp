#include "cli/serve/site.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/commands.h"

namespace llmsim::cli::serve {
namespace {

// Hears what is sent; gone from the start where it is told so.
class Listener : public Client {
 public:
  bool send(std::string_view piece) override {
    heard += piece;
    return true;
  }
  bool is_gone() override { return false; }

  std::string heard;
};

// The pages that need no command, as of this test there is none.
class Pages : public testing::Test {
 protected:
  Pages() : site_(program_, {.place = {"127.0.0.1", 8080}}) { add_plan(program_, status_); }

  Response answer(const std::string& method, const std::string& path, const std::string& query = "",
                  const std::string& body = "") {
    return site_.answer({.method = method,
                         .path = path,
                         .query = query,
                         .headers = {{"host", "127.0.0.1:8080"},
                                     {"content-type", "application/x-www-form-urlencoded"}},
                         .body = body},
                        listener_);
  }

  CLI::App program_;
  int status_ = 0;
  Site site_;
  Listener listener_;
};

std::string header_of(const Response& response, const std::string& name) {
  for (const auto& [header, value] : response.headers)
    if (header == name) return value;
  return "";
}

TEST_F(Pages, TheStartHasItsOwnFilesAlone) {
  const Response start = answer("GET", "/", "kind=plan&model=<script>");
  EXPECT_EQ(start.status, 200);
  EXPECT_EQ(start.body.find("model=<script>"), std::string::npos);
  EXPECT_EQ(start.body.find("style=\""), std::string::npos);
  EXPECT_EQ(start.body.find("https://"), std::string::npos);
  EXPECT_NE(header_of(start, "Content-Security-Policy").find("script-src 'self'"),
            std::string::npos);
  EXPECT_EQ(answer("GET", "/style.css").type, "text/css");
  EXPECT_EQ(answer("GET", "/serve.js").type, "text/javascript");
}

TEST_F(Pages, OtherPathsAndMethodsAreRefused) {
  for (const char* path : {"/nothing", "/../etc/passwd", "/answers/../x", "/answers/", "//",
                           "/ask.js", "/answers/0123456789abcdef0123456789abcdef"})
    EXPECT_EQ(answer("GET", path).status, 404) << path;
  EXPECT_EQ(answer("GET", "/ask").status, 405);
  EXPECT_EQ(answer("POST", "/").status, 405);
  EXPECT_EQ(answer("DELETE", "/").status, 405);
  EXPECT_EQ(site_.answer({.headers = {{"host", "evil.example"}}}, listener_).status, 403);
}

TEST_F(Pages, WhatIsWrongWithAQuestionIsSaidInItsLastLine) {
  EXPECT_TRUE(answer("POST", "/ask", "", "kind=nothing").sent);
  EXPECT_EQ(listener_.heard,
            "{\"done\":{\"error\":\"kind = nothing: plan, predict, diagnose, compare or export is "
            "expected\"}}\n");
  listener_.heard.clear();
  answer("POST", "/ask", "", "kind=plan&gpus=8&options=--output+x");
  EXPECT_NE(listener_.heard.find("tools write no files"), std::string::npos) << listener_.heard;
  listener_.heard.clear();
  answer("POST", "/ask", "", "kind=plan&model=/etc/passwd");
  EXPECT_NE(listener_.heard.find("a file that is sent"), std::string::npos) << listener_.heard;
}

TEST_F(Pages, ProgramsHearOfErrorsAsJson) {
  const Response wrong = answer("GET", "/plan.json", "micro_bach=1");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.type, "application/json");
  EXPECT_NE(wrong.body.find("did you mean micro_batch?"), std::string::npos) << wrong.body;
}

}  // namespace
}  // namespace llmsim::cli::serve
