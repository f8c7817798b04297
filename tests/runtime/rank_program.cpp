// One rank, for the tests of processes: sums over all ranks again and again, and does at step 3
// what its argument says.
//
//   rank_program TIMEOUT_S [RANK die|hang|fail|linger]
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <ATen/ATen.h>

#include "runtime/parallel/process_place.h"
#include "runtime/parallel/world.h"

using namespace llmsim::runtime;

namespace {

void misbehave(const std::string& how) {
  if (how == "die") std::raise(SIGKILL);
  if (how == "hang") std::raise(SIGSTOP);
  if (how == "fail") std::exit(3);
}

void run(int argc, char** argv) {
  const World world(process_place(process_environment()), Transport::Gloo,
                    std::chrono::seconds(std::atoi(argv[1])));
  const auto group = world.connect_all();
  for (int step = 0; step < 5; ++step) {
    if (argc > 3 && step == 3 && world.rank() == std::atoi(argv[2])) misbehave(argv[3]);
    const at::Tensor one = at::ones({1000});
    group->all_reduce(one);
    if (one[0].item<float>() != static_cast<float>(world.size())) std::exit(4);
  }
  if (argc > 3 && std::string(argv[3]) == "linger" && world.rank() == std::atoi(argv[2]))
    std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
