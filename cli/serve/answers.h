// Answers to the questions of pages: each is what a command prints, run as a process of its own.
//
//   plan       llmsim plan, and the page of llmsim report
//   predict    llmsim predict, of options, a run record or a launch file, and its page
//   diagnose   llmsim diagnose, of such a run with logs and profiles
//   compare    llmsim compare, with a row for each question
//   export     llmsim plan --export, or llmsim export of one run: launch files
//
// So every value is that of the command line, and what becomes of one question is nothing to the
// others.  They run at the same time, as many as there are cores, and the rest wait.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <semaphore>
#include <string>

#include "cli/serve/answer_store.h"
#include "cli/serve/form.h"
#include "cli/serve/http.h"

namespace llmsim::cli::serve {

// What all questions have in common.
struct Means {
  const CLI::App& program;          // with its commands
  std::chrono::milliseconds limit;  // of one command
  std::filesystem::path temporary;  // in which questions have their folders
  AnswerStore& store;
  std::counting_semaphore<>& turns;
};

// Answers the question of a form, of the kind that its field `kind` names, in lines of JSON:
//
//   {"waiting": true}                           others are asked first
//   {"progress": "searching group 3 of 40"}     of a search
//   {"text": "...", "command": "llmsim ..."}    what the command prints, as soon as it is there
//   {"done": {...}}                             the last one
//
// `done` has the exit status, messages, and where there are some the path of a `page`, and `files`
// (name, path) with their `archive`; or `error`, what is wrong and what would be right.
void answer_in_lines(const Form& form, const Means& means, Client& client);

// What `llmsim COMMAND --format json` prints for a form; of plan, predict, diagnose or compare.
// 400 with an object {"error": ...} where the exit status is neither 0 nor 3.
Response json_answer(const std::string& command, const Form& form, const Means& means,
                     Client& client);

}  // namespace llmsim::cli::serve
