// What a form says: fields of a query and of a body, and files.
//
// Sources: WHATWG URL Standard, "application/x-www-form-urlencoded parsing"; RFC 7578
// (multipart/form-data), 2015.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/serve/http.h"

namespace llmsim::cli::serve {

struct UploadedFile {
  std::string field;  // of the form: "log"
  std::string name;   // that it has there, where it may be stored: "train.log"
  std::string text;
};

struct Form {
  std::vector<std::pair<std::string, std::string>> fields{};  // in their order, none of them empty
  std::vector<UploadedFile> files{};

  // The last of that name; empty where there is none.
  std::string value(const std::string& name) const;
  std::vector<const UploadedFile*> files_of(const std::string& field) const;
};

// "a%20b+c" is "a b c"; what is no escape stays as it is.
std::string percent_decoded(std::string_view text);

// A name without folders, of letters, digits, dots, dashes and underscores, at most 100 of them.
std::string stored_name(std::string_view name);

// The form of a query and of the body, which is "application/x-www-form-urlencoded" or
// "multipart/form-data".  Throws Refusal 400 for a body in parts that does not end or has more than
// 1000 parts, and 415 for another type.
Form form_of(const Request& request);

}  // namespace llmsim::cli::serve
