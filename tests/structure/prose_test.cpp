// The rules of prose.h, each shown to find what it is for, and held against the headers.
#include "tests/structure/prose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace llmsim::structure {
namespace {

using Finder = std::vector<Complaint> (*)(const std::string&);

const SourceTree& whole_tree() {
  static const SourceTree tree = read_source_tree(LLMSIM_SOURCE_DIR);
  return tree;
}

bool is_header_of_program(const std::string& path) {
  return path.ends_with(".h") && top_folder(path) != "tests";
}

void hold(Finder rule) {
  for (const auto& [path, text] : whole_tree().texts) {
    if (!is_header_of_program(path)) continue;
    for (const Complaint& complaint : rule(text))
      ADD_FAILURE() << path << ":" << complaint.line << ": " << complaint.what;
  }
}

// Lines with complaints.
std::vector<int> lines(Finder rule, const std::string& text) {
  std::vector<int> found;
  for (const Complaint& complaint : rule(text)) found.push_back(complaint.line);
  return found;
}

using Lines = std::vector<int>;

TEST(FalseGemms, AreProductsThatAScriptHasRenamed) {
  EXPECT_EQ(lines(false_gemms, "// row and column means 2, outer GEMM 2\n"), Lines{1});
  EXPECT_EQ(lines(false_gemms, "// eager silu then GEMM 5 e, 9 e\n"), Lines{1});
  EXPECT_EQ(lines(false_gemms, "// three dimensions.  GEMMs and quotients derive it\n"), Lines{1});
  EXPECT_EQ(lines(false_gemms, "// the gradient of the weight (GEMM\n// and sum over the row)\n"),
            Lines{1});
  EXPECT_EQ(lines(false_gemms, "int a;  // or the nearest GEMMs\n"), Lines{1});
  EXPECT_EQ(lines(false_gemms, "// The GEMM of t tokens; GEMMs and attention; sums after a GEMM\n"),
            Lines{});
}

TEST(Orphans, AreLastLinesOfOneWordUnderAFullLine) {
  const std::string full =
      "// A comment that a tool has broken into lines of a hundred columns or so\n";
  EXPECT_EQ(lines(orphans, full + "// alone.\nint a;\n"), Lines{2});
  EXPECT_EQ(lines(orphans, full + "// alone.\n//\n// And on.\n"), Lines{2});
  EXPECT_EQ(lines(orphans, full + "// not alone.\nint a;\n"), Lines{});
  EXPECT_EQ(lines(orphans, "// Short.\n// alone\nint a;\n"), Lines{});
  EXPECT_EQ(lines(orphans, full + "// alone\n// but it goes on.\n"), Lines{});
}

TEST(CommentsInDeclarations, StandBehindHalfALineOfCode) {
  EXPECT_EQ(lines(comments_in_declarations, "bool a =\n    // why\n    false;\n"), Lines{2});
  EXPECT_EQ(lines(comments_in_declarations, "std::optional<int>\n    // why\n    a{};\n"),
            Lines{2});
  EXPECT_EQ(lines(comments_in_declarations,
                  "#include <map>\n// why\nenum A {\n  // first\n  B,\n  // second\n  C\n};\n"
                  "// a class\nclass D {\n public:\n  // a\n  D();\n};\n"),
            Lines{});
  EXPECT_EQ(lines(comments_in_declarations, "template <class T>\n// why\nvoid a();\n"), Lines{});
}

TEST(PrivateWords, AreFoundInCommentsAndNames) {
  for (const char* word :
       {"// runs beside it\n", "// what is kept\n", "// told apart\n", "// layers are dealt\n",
        "// the figure of a row\n", "// a knob\n", "int a;  // of the ends (embedding, head)\n",
        "// Parts of a model\n", "// model parts\n", "// the other way to recompute\n",
        "void a(const B& habits);\n", "int asked_size = 0;\n", "void lend(Unit& unit);\n"})
    EXPECT_FALSE(private_words(word).empty()) << word;
  for (const char* word :
       {"// overlapped with it\n", "// besides\n", "// ends with a bar\n", "// a partial sum\n",
        "// figures.js draws\n", "void apart_from();\n", "// a file 900 pixels wide\n"})
    EXPECT_TRUE(private_words(word).empty()) << word;
}

TEST(LongLines, HaveMoreThanAHundredColumns) {
  EXPECT_EQ(lines(long_lines, std::string(100, 'a') + "\n" + std::string(101, 'a') + "\n"),
            Lines{2});
}

TEST(Prose, NoHeaderCallsAProductAGemm) { hold(false_gemms); }

TEST(Prose, NoCommentStandsInsideOfADeclaration) { hold(comments_in_declarations); }

TEST(Prose, NoCommentEndsInALineOfOneWord) { hold(orphans); }

TEST(Prose, HeadersSayItInTheWordsOfTheField) { hold(private_words); }

TEST(Prose, HeadersEndAtAHundredColumns) { hold(long_lines); }

// What someone who has read the papers looks for by name.
TEST(Prose, AReaderFindsTheWordsOfTheFieldInAHeader) {
  for (const char* word :
       {"activation memory", "ring attention", "radient accumulation", "launch-bound", "host-bound",
        "arithmetic intensity", "oversubscription", "activation checkpointing", "roofline"}) {
    bool found = false;
    for (const auto& [path, text] : whole_tree().texts)
      found = found || (is_header_of_program(path) && text.find(word) != std::string::npos);
    EXPECT_TRUE(found) << word;
  }
}

}  // namespace
}  // namespace llmsim::structure
