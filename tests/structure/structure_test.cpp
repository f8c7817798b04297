// The rules of the house, held against the source tree.
#include <filesystem>
#include <map>
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
    {"nlohmann/", {"hwdb", "reports", "runtime"}},
    {"Eigen/", {"calibrate"}},
    // The tests of sim hold its closed forms against it.
    {"boost/", {"calibrate", "sim"}},
    {"CLI/", {"cli"}},
    {"torch/", {"runtime"}},
    {"c10/", {"runtime"}},
    {"ATen/", {"runtime"}},
    {"toml++/", {"hwdb"}},
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

bool exists(const std::string& path) { return sources().texts.contains(path); }

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// "memory" of sim/memory/footprint.h, "predict" of sim/predict.h.
std::string room_of(const std::string& path) {
  const std::string below = path.substr(path.find('/') + 1);
  return below.find('/') == std::string::npos ? stem(below) : top_folder(below);
}

int floor_of(const std::string& room) {
  for (std::size_t i = 0; i < sim_floors.size(); ++i)
    if (sim_floors[i].contains(room)) return static_cast<int>(i);
  return -1;
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

TEST(Structure, NoArrowOfSimGoesUp) {
  for (const auto& [path, includes] : sources().includes) {
    if (top_folder(path) != "sim") continue;
    EXPECT_GE(floor_of(room_of(path)), 0) << path << " is on no floor";
    for (const std::string& include : includes) {
      if (top_folder(include) != "sim" || room_of(include) == room_of(path)) continue;
      EXPECT_LT(floor_of(room_of(include)), floor_of(room_of(path)))
          << path << " includes " << include;
    }
  }
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

TEST(Structure, HeadersOfPipelinesAndSchedulesNameTheirSourceOrSayWhoseTheyAre) {
  for (const auto& [path, text] : sources().texts) {
    if (!path.ends_with(".h") ||
        (!path.starts_with("sim/schedule/") && !path.starts_with("sim/pipeline/")))
      continue;
    const std::string top = text.substr(0, text.find("#pragma once"));
    const auto says = [&](const char* word) { return top.find(word) != std::string::npos; };
    EXPECT_TRUE(says("ource") || says("et al.") || says("ours") || says("Ours")) << path;
  }
}

TEST(Structure, FilesAreNamedForTheirConcept) {
  const Names nameless{"util", "utils", "common", "manager", "helper", "helpers", "misc", "base"};
  for (const auto& [path, text] : sources().texts) {
    EXPECT_FALSE(nameless.contains(stem(path))) << path;
  }
}

// Its own, or that of the concept whose parts the folder holds: catalogue.h has
// catalogue/llama.cpp.
bool has_header(const std::string& path) {
  const std::filesystem::path source(path);
  return exists(std::filesystem::path(source).replace_extension(".h").generic_string()) ||
         exists(source.parent_path().generic_string() + ".h");
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

TEST(Structure, EverySourceIsNamedInACMakeFile) {
  std::string cmake_files;
  for (const auto& [path, text] : sources().texts) {
    cmake_files += path.ends_with("CMakeLists.txt") ? text : "";
  }
  for (const auto& [path, includes] : sources().includes) {
    const std::string name = std::filesystem::path(path).filename().string();
    EXPECT_TRUE(path.ends_with(".h") || cmake_files.find(name) != std::string::npos)
        << path << " is not built";
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
