# Texts that are part of the program.
#
#   embed_texts(OUTPUT NAMESPACE HEADER FUNCTION... [HASHED FUNCTION])
#
# makes OUTPUT the source of HEADER, where each FUNCTION gives the files of the list of that name as hwdb::ShippedText, and FUNCTION_hash of
# HASHED a text that changes whenever one of them does.  The assembler reads the files, so compiling stays fast; hashes make the source change
# whenever a file does.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(embed_texts_script ${CMAKE_CURRENT_LIST_FILE})
  function(embed_texts output namespace header)
    cmake_parse_arguments(PARSE_ARGV 3 embedded "" "HASHED" "")
    set(functions ${embedded_UNPARSED_ARGUMENTS})
    set(lists "")
    set(files "")
    foreach(function IN LISTS functions)
      list(APPEND files ${${function}})
      list(JOIN ${function} "|" paths)
      list(APPEND lists "-D${function}=${paths}")
    endforeach()
    list(JOIN functions "|" names)
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} ${lists} "-DFUNCTIONS=${names}" -DNAMESPACE=${namespace} -DHEADER=${header} -DHASHED=${embedded_HASHED}
              -DOUTPUT=${output} -P ${embed_texts_script}
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
string(REPLACE "|" ";" FUNCTIONS "${FUNCTIONS}")
foreach(function IN LISTS FUNCTIONS)
  set(entries "")
  set(hashes "")
  string(REPLACE "|" ";" paths "${${function}}")
  foreach(path IN LISTS paths)
    get_filename_component(name ${path} NAME_WLE)
    string(MAKE_C_IDENTIFIER "llmsim_${function}_${name}" symbol)
    file(SHA256 ${path} hash)
    string(APPEND hashes "${name}:${hash};")
    string(APPEND assembly "${symbol}:\\n .incbin \\\"${path}\\\"\\n${symbol}_end:\\n")
    string(APPEND declarations "extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n")
    string(APPEND entries "      {\"${name}\", text(${symbol}, ${symbol}_end)},\n")
  endforeach()
  string(SHA256 digest "${hashes}")
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
