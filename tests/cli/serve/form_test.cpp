#include "cli/serve/form.h"

#include <gtest/gtest.h>

#include <string>

namespace llmsim::cli::serve {
namespace {

Request sent(const std::string& type, const std::string& body) {
  return {.method = "POST", .headers = {{"content-type", type}}, .body = body};
}

Form parts(const std::string& body) {
  return form_of(sent("multipart/form-data; boundary=XX", body));
}

int refused(const Request& request) {
  try {
    form_of(request);
    return 0;
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
}

TEST(PercentDecoded, TakesEscapesAndLeavesTheRest) {
  EXPECT_EQ(percent_decoded("a%20b+c%2B%2b"), "a b c++");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%zz%4"), "%zz%4");
}

TEST(StoredName, IsOneNameInOneFolder) {
  EXPECT_EQ(stored_name("train log.txt"), "train_log.txt");
  EXPECT_EQ(stored_name("../../etc/passwd"), "passwd");
  EXPECT_EQ(stored_name("C:\\logs\\a.csv"), "a.csv");
  EXPECT_EQ(stored_name(".."), "file..");
  EXPECT_EQ(stored_name("--output"), "file--output");
  EXPECT_EQ(stored_name(""), "file");
  EXPECT_EQ(stored_name(std::string(200, 'a') + ".json").size(), 100U);
  EXPECT_TRUE(stored_name(std::string(200, 'a') + ".json").ends_with(".json"));
}

TEST(FormOf, AQueryAndABodyAreOneFormWithoutWhatIsEmpty) {
  Request request = sent("application/x-www-form-urlencoded", "gpus=8&tp=&options=--tp+2");
  request.query = "model=gpt2&x";
  const Form form = form_of(request);
  ASSERT_EQ(form.fields.size(), 3U);
  EXPECT_EQ(form.value("model"), "gpt2");
  EXPECT_EQ(form.value("gpus"), "8");
  EXPECT_EQ(form.value("options"), "--tp 2");
  EXPECT_EQ(form.value("tp"), "");
}

TEST(FormOf, PartsAreFieldsAndFiles) {
  const Form form = parts(
      "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ngpt2\r\n"
      "--XX\r\nContent-Disposition: form-data; name=\"log\"; filename=\"a/b.log\"\r\nContent-Type: "
      "text/plain\r\n\r\nline\r\n--X\r\n\r\n"
      "--XX\r\nContent-Disposition: form-data; name=\"log\"; filename=\"\"\r\n\r\n\r\n--XX--\r\n");
  EXPECT_EQ(form.value("model"), "gpt2");
  ASSERT_EQ(form.files.size(), 1U);  // one was not chosen
  EXPECT_EQ(form.files[0].field, "log");
  EXPECT_EQ(form.files[0].name, "b.log");
  EXPECT_EQ(form.files[0].text, "line\r\n--X\r\n");
  EXPECT_EQ(form.files_of("log").size(), 1U);
  EXPECT_TRUE(form.files_of("profile").empty());
}

TEST(FormOf, RefusesWhatDoesNotEnd) {
  const std::string type = "multipart/form-data; boundary=XX";
  EXPECT_EQ(refused(sent("text/plain", "x")), 415);
  EXPECT_EQ(refused(sent("multipart/form-data", "--\r\n\r\n--")), 400);
  for (const char* body :
       {"x", "--XX", "--XX\r\n", "--XX\r\n\r\n--XX", "--XX\r\nA: b\r\n\r\nc\r\n--XX--",
        "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--XX"})
    EXPECT_EQ(refused(sent(type, body)), 400) << body;
  std::string many;
  for (int i = 0; i <= 1000; ++i)
    many += "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n";
  EXPECT_EQ(refused(sent(type, many + "--XX--")), 400);
}

}  // namespace
}  // namespace llmsim::cli::serve
