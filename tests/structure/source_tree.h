// The source tree as the rules of the house see it: which files there are, and what each of them
// includes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace llmsim::structure {

// Paths are relative to the root of the sources, with '/' between their parts.
struct SourceTree {
  std::map<std::string, std::string> texts;  // every text file of the project, by path
  // Of every .h and .cpp: what stands between the quotes or angles.
  std::map<std::string, std::vector<std::string>> includes;
};

// Reads the tree at `root`, without build/ and version control.
SourceTree read_source_tree(const std::string& root);

// What the lines "#include <x>" and "#include "x"" of a C++ source name, in order.
std::vector<std::string> included_files(const std::string& text);

// First part of a path: "sim" of "sim/base/quantity.h"; empty for a file at the root.
std::string top_folder(const std::string& path);

// The folder of the program that a source belongs to: its top folder, and for tests/<folder>/ that
// folder.
std::string owning_folder(const std::string& path);

// Everything that `path` includes, directly or through headers of the project.
std::set<std::string> transitive_includes(const SourceTree& tree, const std::string& path);

}  // namespace llmsim::structure
