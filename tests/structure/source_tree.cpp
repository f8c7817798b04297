#include "tests/structure/source_tree.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace llmsim::structure {
namespace {

namespace fs = std::filesystem;

bool is_foreign(const fs::path& path) {
  return path.filename() == ".git" || path.filename() == "build";
}

bool is_cpp(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<std::string> included_files(const std::string& text) {
  std::vector<std::string> files;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#include ")) {
      continue;
    }
    const auto begin = line.find_first_of("<\"") + 1;
    files.push_back(line.substr(begin, line.find_first_of(">\"", begin) - begin));
  }
  return files;
}

SourceTree read_source_tree(const std::string& root) {
  SourceTree tree;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_foreign(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && !entry->is_symlink()) {
      const std::string path = fs::relative(entry->path(), root).generic_string();
      tree.texts[path] = text_of(entry->path());
      if (is_cpp(entry->path())) {
        tree.includes[path] = included_files(tree.texts[path]);
      }
    }
  }
  return tree;
}

std::string top_folder(const std::string& path) {
  const auto end = path.find('/');
  return end == std::string::npos ? "" : path.substr(0, end);
}

std::string owning_folder(const std::string& path) {
  const std::string top = top_folder(path);
  return top == "tests" ? top_folder(path.substr(top.size() + 1)) : top;
}

std::set<std::string> transitive_includes(const SourceTree& tree, const std::string& path) {
  std::set<std::string> found;
  std::vector<std::string> open{path};
  while (!open.empty()) {
    const std::string file = open.back();
    open.pop_back();
    const auto includes = tree.includes.find(file);
    if (includes == tree.includes.end()) {
      continue;
    }
    for (const std::string& include : includes->second) {
      if (found.insert(include).second) {
        open.push_back(include);
      }
    }
  }
  return found;
}

}  // namespace llmsim::structure
