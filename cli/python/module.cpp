// The program inside of Python: llmsim._program.run(arguments).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"

namespace {

// What is written to std::cerr while one lives.
class CaughtMessages {
 public:
  CaughtMessages() : before_(std::cerr.rdbuf(caught_.rdbuf())) {}
  CaughtMessages(const CaughtMessages&) = delete;
  CaughtMessages& operator=(const CaughtMessages&) = delete;
  ~CaughtMessages() { std::cerr.rdbuf(before_); }

  std::string text() const { return caught_.str(); }

 private:
  std::ostringstream caught_;
  std::streambuf* before_;
};

std::pair<int, std::string> run(const std::vector<std::string>& arguments) {
  const pybind11::gil_scoped_release others_may_run;
  const CaughtMessages messages;
  const int status = llmsim::cli::run_program(arguments, LLMSIM_VERSION);
  return {status, messages.text()};
}

}  // namespace

PYBIND11_MODULE(_program, module) {
  module.doc() = "The program llmsim, without its process.";
  module.attr("version") = LLMSIM_VERSION;
  module.def("run", &run, pybind11::arg("arguments"),
             "Exit status and messages of `llmsim ARGUMENTS...`, one call at a time; its result "
             "goes to the file of -o.");
}
