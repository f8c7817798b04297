// Files that are part of the program (embed_texts.cmake).  It needs none at run time.
#pragma once

#include <span>
#include <string_view>

namespace llmsim::hwdb {

struct ShippedText {
  std::string_view name;  // of the file, without its ending
  std::string_view text;
};

}  // namespace llmsim::hwdb
