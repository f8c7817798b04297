// The program serves: its answers are those of its commands, and limits hold.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cli/program.h"
#include "tests/cli/serve/local_connection.h"

namespace llmsim::cli {
namespace {

using serve::answer_at;
using serve::body_of;
using serve::get;
using serve::LocalConnection;
using serve::post;
using serve::status_of;

// `llmsim serve --port 0` in a folder, until it goes.
class Serving {
 public:
  Serving(const std::string& folder, const std::string& options) {
    const std::string line = "cd '" + folder + "' && echo $$ && exec env XDG_DATA_HOME='" + folder +
                             "' TMPDIR='" + folder + "' '" LLMSIM_PROGRAM "' serve --port 0 " +
                             options + " 2>'" + folder + "/serve.log'";
    output_ = ::popen(line.c_str(), "r");
    process_ = std::stoi(line_of_output());
    banner_ = line_of_output();
    std::smatch found;
    if (std::regex_search(banner_, found, std::regex(":([0-9]+)/"))) port_ = std::stoi(found[1]);
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() {
    if (output_) end();
  }

  // The exit status after the signal of a system that ends.
  int end() {
    ::kill(process_, SIGTERM);
    const int status = ::pclose(output_);
    output_ = nullptr;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int port() const { return port_; }
  pid_t process() const { return process_; }
  const std::string& banner() const { return banner_; }

 private:
  std::string line_of_output() {
    std::string line;
    for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_))
      line += static_cast<char>(c);
    return line;
  }

  std::FILE* output_ = nullptr;
  pid_t process_ = 0;
  int port_ = 0;
  std::string banner_;
};

// Processes that a process has started; none of a system that does not list them.
std::string children_of(pid_t process) {
  std::string children;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(tasks, error))
    children += content_of((task.path() / "children").string());
  return children;
}

class Serve : public Program {
 protected:
  Serve() { std::filesystem::create_directory(path("served")); }
  std::string served() const { return path("served"); }

  // Whether no question has a folder there.
  bool has_no_folders() const {
    for (const auto& entry : std::filesystem::directory_iterator(served()))
      if (entry.path().filename().string().starts_with("llmsim-question-")) return false;
    return true;
  }

  // What a command prints but for the seconds of its search.
  static std::string untimed(const std::string& text) {
    return std::regex_replace(text, std::regex("\"seconds\": [^,\n]*"), "");
  }
};

TEST_F(Serve, AnswersAreThoseOfTheCommandLine) {
  const Serving serving(served(), "");
  for (const auto& [path, line] : std::vector<std::pair<std::string, std::string>>{
           {"/plan.json?model=llama3-8b&gpus=16&options=--tp+1,2+--top+3",
            "plan --model llama3-8b --gpus 16 --tp 1,2 --top 3"},
           {"/predict.json?model=gpt2&gpus=8&flash=false&tokens=1T",
            "predict --model gpt2 --gpus 8 --no-flash --tokens 1T"},
           {"/compare.json?model=gpt2,gpt2-xl&tp=1,2&gpus=8",
            "compare --model gpt2,gpt2-xl --tp 1,2 --gpus 8"}}) {
    const std::string answer = answer_at(serving.port(), get(serving.port(), path));
    EXPECT_EQ(status_of(answer), 200) << answer;
    EXPECT_EQ(untimed(body_of(answer)), untimed(run(line + " --format json").out)) << line;
  }
  EXPECT_TRUE(has_no_folders());
}

TEST_F(Serve, ALaunchFileIsPredictedAndItsPageIsServed) {
  ASSERT_EQ(run("plan --model gpt2-xl --gpus 8 --export launch --to megatron").status, 0);
  const Serving serving(served(), "");
  const std::string file = text_of("launch/megatron.sh");
  const std::string form =
      "--X\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\npredict\r\n--X\r\n"
      "Content-Disposition: form-data; name=\"from\"; filename=\"a/megatron.sh\"\r\n\r\n" +
      file + "\r\n--X--\r\n";
  const std::string answer = answer_at(
      serving.port(), "POST /ask HTTP/1.1\r\nHost: localhost:" + std::to_string(serving.port()) +
                          "\r\nContent-Type: multipart/form-data; boundary=X\r\nContent-Length: " +
                          std::to_string(form.size()) + "\r\n\r\n" + form);
  EXPECT_NE(answer.find("llmsim predict --from=megatron.sh"), std::string::npos) << answer;
  std::smatch page;
  ASSERT_TRUE(std::regex_search(answer, page, std::regex("\"page\":\"([^\"]+)\""))) << answer;
  const std::string shown = answer_at(serving.port(), get(serving.port(), std::string(page[1])));
  EXPECT_EQ(status_of(shown), 200);
  EXPECT_NE(shown.find("\r\nContent-Security-Policy: sandbox allow-scripts"), std::string::npos);
  EXPECT_NE(shown.find("id=\"data\""), std::string::npos);
  EXPECT_TRUE(has_no_folders());
}

// The value of a key, as it is printed first.
std::string printed(const std::string& json, const std::string& key) {
  std::smatch match;
  std::regex_search(json, match, std::regex("\"" + key + "\": ([^,\n]+)"));
  return match.size() == 2 ? std::string(match[1]) : "";
}

TEST_F(Serve, ComparedQuestionsAreThePredictedRuns) {
  const Serving serving(served(), "");
  const std::string body =
      R"(questions=[{"label":"a","kind":"predict","model":"gpt2","gpus":"8"},)"
      R"({"label":"b","kind":"predict","model":"gpt2","options":"--gpus 8 --no-flash"}])";
  const std::string answer = answer_at(serving.port(), post(serving.port(), "/compare.json", body));
  EXPECT_EQ(status_of(answer), 200) << answer;
  for (const char* options : {"", " --no-flash"}) {
    const std::string json =
        run(std::string("predict --model gpt2 --gpus 8 --format json") + options).out;
    const std::string step_time = printed(json, "step_time_s");
    ASSERT_NE(step_time, "");
    EXPECT_NE(answer.find("\"step_time_s\": " + step_time), std::string::npos) << step_time;
  }
}

TEST_F(Serve, RefusesWhatIsNotForIt) {
  const Serving serving(served(), "--max-request 1KiB");
  const int port = serving.port();
  EXPECT_EQ(serving.banner(),
            "llmsim serves at http://127.0.0.1:" + std::to_string(port) + "/ (Ctrl-C ends)");
  EXPECT_EQ(status_of(answer_at(port, get(port, "/"))), 200);
  EXPECT_EQ(status_of(answer_at(port, get(port, "/nothing"))), 404);
  EXPECT_EQ(status_of(answer_at(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 403);
  EXPECT_EQ(status_of(answer_at(port, post(port, "/ask", "kind=plan", "Origin: http://a\r\n"))),
            403);
  EXPECT_EQ(status_of(answer_at(port, post(port, "/ask", std::string(1025, 'x')))), 413);
}

TEST_F(Serve, AQuestionThatNobodyWaitsForIsStopped) {
  Serving serving(served(), "");
  {
    LocalConnection connection(serving.port());
    connection.send(post(serving.port(), "/ask",
                         "kind=plan&model=deepseek-v3&gpus=2048&options=--sensitivity+--pareto"));
    for (int i = 0; i < 200 && children_of(serving.process()).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (int i = 0; i < 200 && !(children_of(serving.process()).empty() && has_no_folders()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(children_of(serving.process()), "");
  EXPECT_TRUE(has_no_folders());
  EXPECT_EQ(serving.end(), 0);
}

TEST_F(Serve, AFolderKeepsAnswers) {
  std::filesystem::create_directory(path("kept"));
  const std::string options = "--folder '" + path("kept") + "'";
  std::smatch page;
  std::string answer;
  {
    const Serving serving(served(), options);
    answer =
        answer_at(serving.port(), post(serving.port(), "/ask", "kind=predict&model=gpt2&gpus=8"));
  }
  ASSERT_TRUE(std::regex_search(answer, page, std::regex("\"page\":\"([^\"]+)\""))) << answer;
  const Serving later(served(), options);
  EXPECT_EQ(status_of(answer_at(later.port(), get(later.port(), std::string(page[1])))), 200);
}

TEST_F(Serve, RefusesOptionsThatItCannotServe) {
  for (const auto& [options, message] : std::vector<std::pair<std::string, std::string>>{
           {"--max-request 2GiB", "a size up to 1GiB is expected"},
           {"--max-request many", "a size up to 1GiB is expected"},
           {"--address localhost", "a numeric address is expected"},
           {"--folder no-such", "a folder that exists is expected"}}) {
    const Outcome outcome = run("serve --port 0 " + options);
    EXPECT_EQ(outcome.status, 1) << options;
    EXPECT_NE(outcome.messages.find(message), std::string::npos) << outcome.messages;
  }
  EXPECT_EQ(run("serve --port 65536").status, 2);
}

}  // namespace
}  // namespace llmsim::cli
