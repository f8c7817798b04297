// Ctrl-C while something long runs that can end early with what it has.
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
