#include "cli/interruption.h"

#include <csignal>

namespace llmsim::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interruption(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Interruption::Interruption() {
  interrupted = 0;
  before_ = std::signal(SIGINT, note_interruption);
}

Interruption::~Interruption() { std::signal(SIGINT, before_); }

bool Interruption::came() const { return interrupted != 0; }

}  // namespace llmsim::cli
