// Rows of one's own for model_types that are not shipped, or that one reads otherwise
// (model_types.h): a document like facts/model_types.json, in the folder of the default database.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace llmsim::hwdb {

// $XDG_DATA_HOME/llmsim/model_types.json, or below the home directory; none where neither is set.
std::optional<std::string> own_model_types_path();

// Checks the rows of {"types": [...]}, which may be like shipped ones and like each other, and
// stores all of them, or nothing; returns their names.  They are read from the next start on.
// `file` names the document in messages.  Throws Error for malformed JSON, a row that cannot be
// read, a name that exists already unless `replace` is set, and where nothing can be written.
std::vector<std::string> add_model_types(const std::string& text, const std::string& file,
                                         bool replace);

}  // namespace llmsim::hwdb
