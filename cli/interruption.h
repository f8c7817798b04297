// Ctrl-C during long work that can end early with its result so far.
#pragma once

namespace llmsim::cli {

// While one lives, the first interruption (SIGINT) is noted and a second one ends
// the program as usual.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  bool came() const;

 private:
  void (*before_)(int);
};

}  // namespace llmsim::cli
