// A communicator of a library that is not there: functions that answer as NCCL does.
#include "runtime/parallel/nccl_library.h"

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;

std::atomic<int> questions_left, aborts;
int made, answer_at_last;

NcclLibrary library() {
  NcclLibrary nccl{};
  questions_left = aborts = 0, answer_at_last = 0;
  nccl.comm_init_rank_config = [](NcclComm* comm, int, NcclUniqueId, int, NcclConfig* config) {
    *comm = &made;
    EXPECT_EQ(config->blocking, 0);
    EXPECT_EQ(config->size, 24u);  // of NCCL 2.14
    return questions_left > 0 ? 7 : answer_at_last;
  };
  nccl.comm_get_async_error = [](NcclComm, int* state) {
    *state = questions_left-- > 1 ? 7 : answer_at_last;
    return 0;
  };
  nccl.comm_abort = [](NcclComm) { return ++aborts, 0; };
  nccl.error_string = [](int result) { return result == 6 ? "remote process exited" : "?"; };
  return nccl;
}

std::string failure(const NcclLibrary& nccl, std::chrono::milliseconds patience) {
  try {
    connect_nccl(nccl, {}, patience, [] {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NcclLibrary, ConnectsWithoutBlocking) {
  const NcclLibrary nccl = library();
  questions_left = 5;
  EXPECT_EQ(connect_nccl(nccl, {}, 10s, [] {}), &made);
  EXPECT_EQ(questions_left, 0);
  EXPECT_EQ(aborts, 0);
}

// The commonest fault, a wrong interface, is a message and no hang.
TEST(NcclLibrary, GivesUpOnAConnectionThatDoesNotCome) {
  const NcclLibrary nccl = library();
  questions_left = 1'000'000;
  EXPECT_EQ(failure(nccl, 50ms),
            "NCCL: a connection of the ranks was not done within 0 s; do NCCL_SOCKET_IFNAME and "
            "NCCL_IB_HCA name interfaces between the nodes?");
  EXPECT_EQ(aborts, 1);
}

TEST(NcclLibrary, SaysWhatWentWrong) {
  const NcclLibrary nccl = library();
  questions_left = 3, answer_at_last = 6;
  EXPECT_EQ(failure(nccl, 10s), "NCCL: remote process exited");
  EXPECT_EQ(aborts, 1);
  EXPECT_STREQ(failure_of(nccl, state_of(nccl, &made)), "remote process exited");
  answer_at_last = 0;
  EXPECT_EQ(failure_of(nccl, state_of(nccl, &made)), nullptr);
}

// Whoever waits for others may be told meanwhile that they have given up.
TEST(NcclLibrary, EndsWhereTheRanksHaveGivenUp) {
  const NcclLibrary nccl = library();
  questions_left = 1'000'000;
  int asked = 0;
  EXPECT_THROW(connect_nccl(nccl, {}, 60s,
                            [&] {
                              if (++asked == 3) throw Error("rank 1 has given up");
                            }),
               Error);
  EXPECT_EQ(aborts, 1);
}

TEST(NcclLibrary, BlocksWhereItCannotBeAsked) {
  NcclLibrary nccl = library();
  nccl.comm_init_rank_config = nullptr;
  nccl.comm_init_rank = [](NcclComm* comm, int, NcclUniqueId, int) { return *comm = &made, 0; };
  EXPECT_EQ(connect_nccl(nccl, {}, 1s, [] {}), &made);
}

}  // namespace
}  // namespace llmsim::runtime
