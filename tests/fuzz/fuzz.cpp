// libFuzzer's entry: FUZZ_READER names one of readers.h.  Built by tests/fuzz/run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/readers.h"

namespace {

const llmsim::fuzz::Reader& chosen() {
  const char* const name = std::getenv("FUZZ_READER");
  for (const llmsim::fuzz::Reader& reader : llmsim::fuzz::readers())
    if (name && reader.name == name) return reader;
  std::fprintf(stderr, "FUZZ_READER: one of these is expected:\n");
  for (const llmsim::fuzz::Reader& reader : llmsim::fuzz::readers())
    std::fprintf(stderr, "%s\n", reader.name.c_str());
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const llmsim::fuzz::Reader& reader = chosen();
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto fault = llmsim::fuzz::fault_of(reader, text)) {
    std::fprintf(stderr, "%s\n", fault->c_str());
    std::abort();
  }
  return 0;
}
