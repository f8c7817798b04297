// Every reader takes any text: it is read, or refused in words, soon.
#include <gtest/gtest.h>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>

#include "tests/fuzz/hostile_texts.h"
#include "tests/fuzz/readers.h"
#include "tests/share.h"

namespace llmsim::fuzz {

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

namespace {

constexpr double kMostSeconds = 10.0;  // as shipped; sanitizers take several times that

namespace fs = std::filesystem;

// The texts of a folder: what is shipped as a test of a format, and what fuzzing found.
std::map<std::string, std::string> texts_in(const fs::path& folder) {
  std::map<std::string, std::string> texts;
  if (!fs::exists(folder)) return texts;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    texts[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return texts;
}

fs::path corpus_of(const Reader& reader) {
  return fs::path(LLMSIM_SOURCE_DIR) / "tests/fuzz/corpus" / reader.name;
}

class Readers : public testing::TestWithParam<Reader> {
 protected:
  void expect_well_read(const std::string& what, const std::string& text) {
    const std::clock_t start = std::clock();  // of this process, whatever else the machine does
    const auto fault = fault_of(GetParam(), text);
    const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_FALSE(fault) << GetParam().name << ", " << what << ": " << *fault;
    EXPECT_LT(taken, kMostSeconds * kPartsOfATest) << GetParam().name << ", " << what;
  }
};

// Of what each reader takes one text at least is read, so that the mutants below start somewhere.
TEST_P(Readers, TakeTheirCorpus) {
  bool reads_one = false;
  std::string why;
  for (const auto& [name, text] : texts_in(corpus_of(GetParam()))) {
    expect_well_read(name, text);
    try {
      GetParam().read(text);
      reads_one = true;
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  EXPECT_TRUE(reads_one) << GetParam().name << ": no text of its corpus is read; " << why;
}

TEST_P(Readers, EndSoonWithHostileTexts) {
  for (const auto& [what, text] : hostile_texts()) expect_well_read(what, text);
}

TEST_P(Readers, TakeOddValuesEverywhere) {
  unsigned number = 0;
  for (const auto& [name, text] : texts_in(corpus_of(GetParam()))) {
    if (text.size() > 4000) continue;
    for (const std::string& mutant : with_odd_values(text))
      if (number++ % kPartsOfATest == 0) expect_well_read(name + "\n" + mutant, mutant);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::ValuesIn(readers()),
                         [](const auto& reader) { return reader.param.name; });

}  // namespace
}  // namespace llmsim::fuzz
