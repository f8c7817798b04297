// The rules of the house, held against the source tree.
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/structure/source_tree.h"

namespace llmsim::structure {
namespace {

using Names = std::set<std::string>;

const Names program_folders{"sim", "hwdb", "calibrate", "runtime", "reports", "cli"};

// Which folders each one may use beside itself; tests of a folder may use what the folder may.
const std::map<std::string, Names> usable_folders{
    {"sim", {}},
    {"hwdb", {"sim"}},
    {"calibrate", {"sim", "hwdb"}},
    {"runtime", {"sim", "hwdb"}},
    {"reports", {"sim", "calibrate"}},
    {"cli", {"sim", "hwdb", "calibrate", "reports"}},
};

// Third-party code by the start of its include path, and the folders to which it is private.
const std::map<std::string, Names> third_party_owners{
    {"sqlite3", {"hwdb"}},
    {"SQLiteCpp/", {"hwdb"}},
    // Every reader is fuzzed, the private ones of hwdb too; messages of agents are the program's.
    {"nlohmann/", {"hwdb", "reports", "runtime", "fuzz", "cli"}},
    {"Eigen/", {"calibrate"}},
    // The tests of sim hold its closed forms against it; the program parses requests with it.
    {"boost/", {"calibrate", "sim", "cli"}},
    {"CLI/", {"cli"}},
    {"torch/", {"runtime"}},
    {"c10/", {"runtime"}},
    {"ATen/", {"runtime"}},
    {"toml++/", {"hwdb"}},
    {"zlib.h", {"hwdb"}},
};

// The floors of sim, the lowest first: a folder, or a file at the top of sim by its stem.  What is
// on one floor does not know the others there.
const std::vector<Names> sim_floors{
    {"base"},
    {"model", "hardware"},
    {"strategy"},
    {"run"},
    {"operators"},
    {"cost"},
    {"pipeline"},
    {"memory"},
    {"schedule"},
    {"job"},
    {"predict", "explain"},
    {"search"},
    {"plan"},
};

// The floors of hwdb, in the same way.
const std::vector<Names> hwdb_floors{
    {"text"},   // documents
    {"store"},  // rows
    {"frameworks", "huggingface", "models", "profile"},
    {"hardware"},
    {"runs"},
    {"launch", "benchmarks"},
    {"llmsim"},
};

const SourceTree& sources() {
  static const SourceTree tree = read_source_tree(LLMSIM_SOURCE_DIR);
  return tree;
}

bool may_use(const std::string& folder, const std::string& other) {
  const auto usable = usable_folders.find(folder);
  // Tests/golden, tests/benchmark, ...
  const bool looks_at_the_whole = usable == usable_folders.end();
  return looks_at_the_whole || folder == other || usable->second.contains(other);
}

bool in_program(const std::string& path) { return program_folders.contains(top_folder(path)); }

// The text of a comment of several lines.
std::string in_one_line(const std::string& comment) {
  static const std::regex line_end(R"(\n\s*// *)");
  return std::regex_replace(comment, line_end, " ");
}

bool exists(const std::string& path) { return sources().texts.contains(path); }

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// "memory" of sim/memory/footprint.h, "predict" of sim/predict.h.
std::string room_of(const std::string& path) {
  const std::string below = path.substr(path.find('/') + 1);
  return below.find('/') == std::string::npos ? stem(below) : top_folder(below);
}

int floor_of(const std::string& room, const std::vector<Names>& floors) {
  for (std::size_t i = 0; i < floors.size(); ++i)
    if (floors[i].contains(room)) return static_cast<int>(i);
  return -1;
}

// What is wrong with the includes inside of a folder: files on no floor, and includes of files that
// are not on a lower floor and not in the same room.
std::vector<std::string> arrows_up(const SourceTree& tree, const std::string& folder,
                                   const std::vector<Names>& floors) {
  std::vector<std::string> wrong;
  for (const auto& [path, includes] : tree.includes) {
    if (top_folder(path) != folder) continue;
    const int own = floor_of(room_of(path), floors);
    if (own < 0) wrong.push_back(path + " is on no floor");
    for (const std::string& include : includes) {
      if (top_folder(include) != folder || room_of(include) == room_of(path)) continue;
      if (floor_of(room_of(include), floors) >= own) wrong.push_back(path + " includes " + include);
    }
  }
  return wrong;
}

TEST(IncludedFiles, AreReadFromQuotesAndAngles) {
  EXPECT_EQ(included_files("#pragma once\n#include <map>  // why\nint a;\n#include "
                           "\"sim/run.h\"\n// #include <set>\n"),
            (std::vector<std::string>{"map", "sim/run.h"}));
}

TEST(TransitiveIncludes, FollowHeadersOfTheProjectAndEndInCycles) {
  const SourceTree tree{.texts = {},
                        .includes = {{"a.h", {"b.h"}}, {"b.h", {"a.h", "Eigen/Core"}}}};
  EXPECT_EQ(transitive_includes(tree, "a.h"), (Names{"a.h", "b.h", "Eigen/Core"}));
}

TEST(OwningFolder, OfATestIsTheFolderItTests) {
  EXPECT_EQ(owning_folder("sim/base/quantity.h"), "sim");
  EXPECT_EQ(owning_folder("tests/hwdb/x_test.cpp"), "hwdb");
  EXPECT_EQ(owning_folder("CMakeLists.txt"), "");
}

TEST(Structure, TheTreeIsRead) {
  EXPECT_TRUE(sources().includes.contains("sim/base/quantity.h"));
  EXPECT_TRUE(sources().texts.contains("CMakeLists.txt"));
}

TEST(Structure, FoldersUseOnlyWhatTheStarAllows) {
  for (const auto& [path, includes] : sources().includes) {
    for (const std::string& include : includes) {
      if (in_program(include)) {
        EXPECT_TRUE(may_use(owning_folder(path), top_folder(include)))
            << path << " includes " << include;
      }
    }
  }
}

TEST(ArrowsUp, AreIncludesOfAHigherOrTheSameFloor) {
  const std::vector<Names> floors{{"low"}, {"high", "other"}};
  const SourceTree tree{.texts = {},
                        .includes = {{"x/high/a.h", {"x/low/b.h", "x/high/c.h", "map", "y/z.h"}},
                                     {"x/low/b.h", {"x/high/a.h"}},
                                     {"x/other.h", {"x/high/a.h"}},
                                     {"x/attic/d.h", {}}}};
  EXPECT_EQ(arrows_up(tree, "x", floors),
            (std::vector<std::string>{"x/attic/d.h is on no floor", "x/low/b.h includes x/high/a.h",
                                      "x/other.h includes x/high/a.h"}));
}

TEST(Structure, NoArrowOfSimGoesUp) {
  for (const std::string& arrow : arrows_up(sources(), "sim", sim_floors)) ADD_FAILURE() << arrow;
}

TEST(Structure, NoArrowOfHwdbGoesUp) {
  for (const std::string& arrow : arrows_up(sources(), "hwdb", hwdb_floors)) ADD_FAILURE() << arrow;
}

TEST(Structure, ProjectHeadersAreIncludedByPathFromTheRoot) {
  for (const auto& [path, includes] : sources().includes) {
    const auto folder = std::filesystem::path(path).parent_path();
    for (const std::string& include : includes) {
      EXPECT_FALSE(exists((folder / include).generic_string()) && !exists(include))
          << path << " includes " << include;
    }
  }
}

// Directly and through headers: what a folder shows to the others must not bring its third-party
// code along.
TEST(Structure, ThirdPartyCodeIsPrivateToItsFolder) {
  for (const auto& [path, unused] : sources().includes) {
    for (const std::string& include : transitive_includes(sources(), path)) {
      for (const auto& [prefix, owners] : third_party_owners) {
        if (include.starts_with(prefix)) {
          EXPECT_TRUE(owners.contains(owning_folder(path))) << path << " reaches " << include;
        }
      }
    }
  }
}

TEST(Structure, SimHasNoInputOutputClockOrFiles) {
  const Names forbidden{"fstream", "iostream",   "cstdio", "stdio.h", "chrono",
                        "ctime",   "filesystem", "thread", "random"};
  for (const auto& [path, includes] : sources().includes) {
    for (const std::string& include : includes) {
      // A search is shared out over threads; its answer is that of one.
      if (path == "sim/plan.cpp" && include == "thread") continue;
      EXPECT_FALSE(top_folder(path) == "sim" && forbidden.contains(include))
          << path << " includes " << include;
    }
  }
}

TEST(Structure, SimIncludesOnlyItselfAndTheStandardLibrary) {
  for (const auto& [path, includes] : sources().includes) {
    for (const std::string& include : includes) {
      const bool standard = include.find_first_of("./") == std::string::npos;
      EXPECT_TRUE(top_folder(path) != "sim" || standard || top_folder(include) == "sim")
          << path << " includes " << include;
    }
  }
}

// So that the header compiles alone, which nothing else checks for a header that has a source.
TEST(Structure, ASourceIncludesItsOwnHeaderFirst) {
  for (const auto& [path, includes] : sources().includes) {
    const std::string header = std::filesystem::path(path).replace_extension(".h").generic_string();
    if (!in_program(path) || header == path || !exists(header)) continue;
    ASSERT_FALSE(includes.empty()) << path;
    EXPECT_EQ(includes.front(), header) << path;
  }
}

// "Source: Zhao et al., VLDB 2023", "Sources: DeepSpeed runtime/pipe/p2p.py", or "ours" as a word of
// its own: not "resources" and not "hours".
bool names_source(const std::string& comment) {
  static const std::regex cited(R"(\b[Ss]ources?( of [a-z ]+)?: [\s\S]*([0-9]{4}|/))"),
      own(R"(\b[Oo]urs\b)");
  const std::string line = in_one_line(comment);
  return std::regex_search(line, cited) || std::regex_search(line, own);
}

TEST(NamesSource, IsACitationOrOurs) {
  EXPECT_TRUE(names_source("// Source: Zhao et al., \"PyTorch FSDP\",\n// VLDB 2023.\n"));
  EXPECT_TRUE(names_source("// Sources: DeepSpeed runtime/pipe/p2p.py.\n"));
  EXPECT_TRUE(names_source("// The drawing is ours; the rest is not.\n"));
  EXPECT_FALSE(names_source("// Resources of 2023 hours.  The source is elsewhere.\n"));
  EXPECT_FALSE(names_source("// Sources are named with each.\n"));
}

TEST(Structure, HeadersOfPipelinesAndSchedulesNameTheirSourceOrSayWhoseTheyAre) {
  for (const auto& [path, text] : sources().texts) {
    if (!path.ends_with(".h") ||
        (!path.starts_with("sim/schedule/") && !path.starts_with("sim/pipeline/")))
      continue;
    EXPECT_TRUE(names_source(text.substr(0, text.find("#pragma once")))) << path;
  }
}

TEST(Structure, FilesAreNamedForTheirConcept) {
  const Names nameless{"util", "utils", "common", "manager", "helper", "helpers", "misc", "base"};
  for (const auto& [path, text] : sources().texts) {
    EXPECT_FALSE(nameless.contains(stem(path))) << path;
  }
}

// Its own, or that of the concept whose parts the folder holds: targets.h has
// targets/megatron.cpp, and huggingface/huggingface.h has huggingface/gpt.cpp.
bool has_header(const std::string& path) {
  const std::filesystem::path source(path), folder = source.parent_path();
  return exists(std::filesystem::path(source).replace_extension(".h").generic_string()) ||
         exists(folder.generic_string() + ".h") ||
         exists((folder / folder.filename()).generic_string() + ".h");
}

TEST(Structure, EverySourceOfALibraryHasAHeader) {
  const Names libraries{"sim", "hwdb", "calibrate", "reports"};
  for (const auto& [path, includes] : sources().includes) {
    const bool is_program = sources().texts.at(path).find("\nint main(") != std::string::npos;
    EXPECT_TRUE(!path.ends_with(".cpp") || is_program || !libraries.contains(top_folder(path)) ||
                has_header(path))
        << path;
  }
}

// The CMake file that builds a source: that of its folder, or of the nearest folder above it.
std::string cmake_file_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  while (!exists((folder / "CMakeLists.txt").generic_string())) folder = folder.parent_path();
  return (folder / "CMakeLists.txt").generic_string();
}

// Names of files in a CMake file, each as it is written.
Names words_of(const std::string& cmake) {
  static const std::regex between(R"re([\s()"]+)re");
  const std::sregex_token_iterator begin(cmake.begin(), cmake.end(), between, -1), end;
  return Names(begin, end);
}

// By its path from there, so that another folder's file of the same name does not count.
TEST(Structure, EverySourceIsNamedInTheCMakeFileOfItsFolder) {
  for (const auto& [path, includes] : sources().includes) {
    if (!path.ends_with(".cpp")) continue;
    const std::string cmake_file = cmake_file_of(path);
    const auto from = std::filesystem::path(cmake_file).parent_path();
    const std::string name = std::filesystem::relative(path, from).generic_string();
    EXPECT_TRUE(words_of(sources().texts.at(cmake_file)).contains(name))
        << path << " is not named in " << cmake_file;
  }
}

TEST(Structure, NoFileNamesAMachineOrAPackageHost) {
  // Each in two parts, so that this file does not name them either.
  const Names machine_names{
      "/"
      "work/",
      "/"
      "root/",
      "/"
      "tmp/",
      "/"
      "home/",
      "deb."
      "debian.org",
      "py"
      "pi.org",
      "pythonhosted"
      ".org"};
  for (const auto& [path, text] : sources().texts) {
    for (const std::string& name : machine_names) {
      EXPECT_EQ(text.find(name), std::string::npos) << path << " names " << name;
    }
  }
}

}  // namespace
}  // namespace llmsim::structure
