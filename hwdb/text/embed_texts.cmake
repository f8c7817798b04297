# Texts that are part of the program.
#
#   embed_texts(OUTPUT NAMESPACE HEADER [LISTS FUNCTION...] [HASHED FUNCTION] [TEXTS FUNCTION...])
#
# makes OUTPUT the source of HEADER.  Each function gives the files in the list variable of its name: those of LISTS as hwdb::ShippedText, one
# for each, those of TEXTS as one text; FUNCTION_hash of the HASHED list is a text that changes whenever one of its files does.  The assembler
# reads the files, so compiling stays fast; hashes make the source change whenever a file does.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(embed_texts_script ${CMAKE_CURRENT_LIST_FILE})
  function(embed_texts output namespace header)
    cmake_parse_arguments(PARSE_ARGV 3 embedded "" "HASHED" "LISTS;TEXTS")
    set(arguments "")
    set(files "")
    foreach(function IN LISTS embedded_LISTS embedded_TEXTS)
      list(APPEND files ${${function}})
      list(JOIN ${function} "|" paths)
      list(APPEND arguments "-D${function}=${paths}")
    endforeach()
    list(JOIN embedded_LISTS "|" lists)
    list(JOIN embedded_TEXTS "|" texts)
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} ${arguments} "-DLIST_FUNCTIONS=${lists}" "-DTEXT_FUNCTIONS=${texts}" -DNAMESPACE=${namespace} -DHEADER=${header}
              -DHASHED=${embedded_HASHED} -DOUTPUT=${output} -P ${embed_texts_script}
      DEPENDS ${files} ${embed_texts_script}
      VERBATIM
    )
  endfunction()
  return()
endif()

set(comments "")
set(assembly "")
set(declarations "")
set(definitions "")

# The files of a list variable between two symbols; `value` becomes the text.
function(embed symbol)
  set(parts "")
  foreach(path IN LISTS ARGN)
    string(APPEND parts " .incbin \\\"${path}\\\"\\n")
  endforeach()
  set(assembly "${assembly}${symbol}:\\n${parts}${symbol}_end:\\n" PARENT_SCOPE)
  set(declarations "${declarations}extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n" PARENT_SCOPE)
  set(value "text(${symbol}, ${symbol}_end)" PARENT_SCOPE)
endfunction()

# A text for the names and contents of files.
function(digest_of output)
  set(hashes "")
  foreach(path IN LISTS ARGN)
    get_filename_component(name ${path} NAME_WLE)
    file(SHA256 ${path} hash)
    string(APPEND hashes "${name}:${hash};")
  endforeach()
  string(SHA256 digest "${hashes}")
  set(${output} ${digest} PARENT_SCOPE)
endfunction()

string(REPLACE "|" ";" LIST_FUNCTIONS "${LIST_FUNCTIONS}")
foreach(function IN LISTS LIST_FUNCTIONS)
  set(entries "")
  string(REPLACE "|" ";" paths "${${function}}")
  foreach(path IN LISTS paths)
    get_filename_component(name ${path} NAME_WLE)
    string(MAKE_C_IDENTIFIER "llmsim_${function}_${name}" symbol)
    embed(${symbol} ${path})
    string(APPEND entries "      {\"${name}\", ${value}},\n")
  endforeach()
  digest_of(digest ${paths})
  string(APPEND comments "// ${function}: ${digest}\n")
  string(APPEND definitions "
std::span<const hwdb::ShippedText> ${function}() {
  static const hwdb::ShippedText texts[] = {
${entries}  };
  return texts;
}
")
  if(function STREQUAL HASHED)
    string(APPEND definitions "\nstd::string_view ${function}_hash() { return \"${digest}\"; }\n")
  endif()
endforeach()

string(REPLACE "|" ";" TEXT_FUNCTIONS "${TEXT_FUNCTIONS}")
foreach(function IN LISTS TEXT_FUNCTIONS)
  string(REPLACE "|" ";" paths "${${function}}")
  embed(llmsim_${function} ${paths})
  digest_of(digest ${paths})
  string(APPEND comments "// ${function}: ${digest}\n")
  string(APPEND definitions "\nstd::string_view ${function}() { return ${value}; }\n")
endforeach()

file(
  WRITE ${OUTPUT}
  "${comments}#include \"${HEADER}\"

#include <cstddef>

__asm__(\".section .rodata\\n${assembly} .byte 0\\n .previous\\n\");
extern \"C\" {
${declarations}}

namespace llmsim::${NAMESPACE} {
namespace {

std::string_view text(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

}  // namespace
${definitions}
}  // namespace llmsim::${NAMESPACE}
"
)
