// Prints the step time of a run file in seconds, and how many strategies its plan looked at.
#include <cstdio>

#include "hwdb/llmsim.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const llmsim::hwdb::Database facts(":memory:");
    llmsim::hwdb::RunResolver resolver(facts);
    const llmsim::sim::Run run = resolver.resolve(llmsim::hwdb::read_run(argv[1]));
    std::printf("%.17g\n", llmsim::sim::predict(run).step_time.value());
    std::printf("%zu\n", llmsim::sim::plan({.base = run}).evaluated);
  } catch (const llmsim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
