#include "cli/serve/archive.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace llmsim::cli::serve {
namespace {

class Archive : public Program {};

TEST_F(Archive, TarAndGzipReadIt) {
  const std::string large(200000, 'x');  // four stored blocks
  const std::vector<ArchivedFile> files{{"run.sh", "#!/bin/sh\n", true}, {"large.txt", large}};
  write("launch.tar.gz", gzip(tar(files)));
  EXPECT_EQ(shell("gzip -t launch.tar.gz").status, 0);
  const Outcome list = shell("tar tvzf launch.tar.gz");
  EXPECT_EQ(list.status, 0) << list.messages;
  EXPECT_EQ(list.messages, "");
  EXPECT_NE(list.out.find("-rwxr-xr-x"), std::string::npos);
  ASSERT_EQ(shell("tar xzf launch.tar.gz").status, 0);
  EXPECT_EQ(text_of("run.sh"), "#!/bin/sh\n");
  EXPECT_EQ(text_of("large.txt"), large);
}

// RFC 1952: ten bytes of header; RFC 1951: a last block of no bytes; no bytes have the sum 0.
TEST(Gzip, OfNothingHasOneEmptyBlock) {
  EXPECT_EQ(gzip("").substr(10), std::string("\x01\0\0\xff\xff\0\0\0\0\0\0\0\0", 13));
}

// Two blocks of zeros end an archive.
TEST(Tar, OfNothingIsItsEnd) { EXPECT_EQ(tar({}), std::string(1024, '\0')); }

}  // namespace
}  // namespace llmsim::cli::serve
