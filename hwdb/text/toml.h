// toml++, safe with files that are no TOML.
//
// Its parser takes some states to be impossible that malformed files bring about
// (TOML_ASSERT_ASSUME: undefined in a release, an abort elsewhere), though it checks for them right
// after and says what is wrong.  Here those checks decide.
//
// Private to hwdb.
#pragma once

#include <string>

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace llmsim::hwdb {

// The document in a text.  Throws toml::parse_error where it is none, and TooLarge where brackets
// or the parts of a key lie in one another more than 100 deep: what reads them recurs.
toml::table parse_toml(const std::string& text);

}  // namespace llmsim::hwdb
