#include "hwdb/huggingface/own_model_types.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "hwdb/huggingface/model_types.h"
#include "hwdb/store/database.h"
#include "hwdb/text/input_file.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::set<std::string> names_of(const json& row) {
  const json& name = row.contains("type") ? row["type"] : row["base"];
  if (name.is_array()) return name.get<std::set<std::string>>();
  return {name.get<std::string>()};
}

json stored_types(const std::string& path) {
  if (!fs::exists(path)) return json::array();
  const json document = parse_json(content_of_file(path), path);
  if (!document.is_object() || !document.contains("types") || !document["types"].is_array())
    throw Error(path + ": an object with a list \"types\" is expected");
  return document["types"];
}

// The whole file, or the one before.
void write(const json& types, const std::string& path) {
  std::error_code ignored;  // a missing folder shows as a file that cannot be written
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const std::string fresh = path + ".new";
  {
    std::ofstream file(fresh);
    file << json{{"schema", 1}, {"types", types}}.dump(1) << "\n";
    if (!file.flush()) throw Error(path + ": cannot be written");
  }
  fs::rename(fresh, path, ignored);
  if (ignored) throw Error(path + ": cannot be written: " + ignored.message());
}

}  // namespace

std::optional<std::string> own_model_types_path() {
  const std::optional<std::string> database = known_default_database_path();
  if (!database) return std::nullopt;
  return (fs::path(*database).parent_path() / "model_types.json").string();
}

std::vector<std::string> add_model_types(const std::string& text, const std::string& file,
                                         bool replace) {
  const std::optional<std::string> path = own_model_types_path();
  if (!path) throw Error("neither XDG_DATA_HOME nor HOME is set, where rows would be stored");
  const ModelTypes added = parse_model_types(text, file, model_types());
  if (added.rows.empty()) throw Error(file + ": \"types\" has no row");
  std::vector<std::string> names;
  for (const auto& [name, row] : added.rows) {
    if (!replace && model_types().rows.contains(name))
      throw Error(file + ": " + name + ": exists already; --replace lets this row hide it");
    names.push_back(name);
  }
  json types = stored_types(*path);
  const json fresh = parse_json(text, file)["types"];
  for (const json& row : fresh) {
    const std::set<std::string> own = names_of(row);
    std::erase_if(types.get_ref<json::array_t&>(),
                  [&](const json& old) { return names_of(old) == own; });
    types.push_back(row);
  }
  write(types, *path);
  return names;
}

}  // namespace llmsim::hwdb
