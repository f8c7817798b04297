// The program: llmsim COMMAND [OPTIONS].
#include <algorithm>
#include <csignal>

#include "cli/program.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return llmsim::cli::run_program({argv + std::min(argc, 1), argv + argc}, LLMSIM_VERSION);
}
