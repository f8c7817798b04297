// The web application: which request is answered by what.
//
//   GET  /                     the page with its form; its query is a question, which it asks again
//   GET  /style.css, /serve.js what it is drawn with
//   GET  /names.json           models, hardware, frameworks and other names of the catalogue
//   POST /ask                  a question, answered in lines of JSON (answers.h)
//   GET  /COMMAND.json         plan, predict, diagnose or compare, for programs; POST with files
//   GET  /answers/ID           a page or a file of an answer; ?download as a file
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>

#include "cli/serve/admission.h"
#include "cli/serve/answer_store.h"
#include "cli/serve/answers.h"
#include "cli/serve/http.h"

namespace llmsim::cli::serve {

// The files of the page, which are part of the program.
std::string_view start_page();
std::string_view serve_style();
std::string_view serve_script();

struct SiteOptions {
  Place place;
  std::chrono::milliseconds limit{0};             // of one command
  std::optional<std::filesystem::path> folder{};  // which keeps answers; none: memory
  std::string version{};                          // of the program
};

// Any thread.
class Site {
 public:
  Site(const CLI::App& program, SiteOptions options);

  // Errors are responses.
  Response answer(const Request& request, Client& client);

 private:
  Response admitted(const Request& request, Client& client);
  Response named(const std::string& path) const;
  const std::string& names();

  const SiteOptions options_;
  AnswerStore store_;
  std::counting_semaphore<> turns_;
  const Means means_;
  std::mutex mutex_;
  std::string names_;  // as they were asked for first
};

}  // namespace llmsim::cli::serve
