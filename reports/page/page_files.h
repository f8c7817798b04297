// The files that a page is made of, as they stand in this folder: part of the
// program (hwdb/text/embed_texts.cmake).
#pragma once

#include <string_view>

namespace llmsim::reports {

std::string_view page_frame();   // page.html
std::string_view page_style();   // style.css
std::string_view page_script();  // all of the script
// Of the libraries, bundled; empty where they could not be had (libraries.cmake).
std::string_view page_libraries_style();
std::string_view page_libraries_script();
std::string_view page_licences();  // those of the libraries, then the Apache License

}  // namespace llmsim::reports
