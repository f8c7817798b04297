# Writes OUTPUT: the C++ source of cli/shipped_tables.h.  TABLES and RUNS are files.  The assembler reads them; the hashes make the source
# change whenever a file does.
set(hashes "")
set(assembly "")
set(declarations "")
function(embed kind)
  set(entries "")
  foreach(path IN LISTS ARGN)
    get_filename_component(name ${path} NAME_WLE)
    string(MAKE_C_IDENTIFIER "llmsim_${kind}_${name}" symbol)
    file(SHA256 ${path} hash)
    string(APPEND hashes "// ${hash}\n")
    string(APPEND assembly "${symbol}:\\n .incbin \\\"${path}\\\"\\n${symbol}_end:\\n")
    string(APPEND declarations "extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n")
    string(APPEND entries "      {\"${name}\", text(${symbol}, ${symbol}_end)},\n")
  endforeach()
  foreach(variable IN ITEMS hashes assembly declarations)
    set(${variable} "${${variable}}" PARENT_SCOPE)
  endforeach()
  set(${kind}_entries "${entries}" PARENT_SCOPE)
endfunction()

embed(table ${TABLES})
embed(run ${RUNS})

file(
  WRITE ${OUTPUT}
  "${hashes}#include \"cli/shipped_tables.h\"

#include <cstddef>

__asm__(\".section .rodata\\n${assembly} .byte 0\\n .previous\\n\");
extern \"C\" {
${declarations}}

namespace llmsim::cli {
namespace {

std::string_view text(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

}  // namespace

std::span<const ShippedText> shipped_tables() {
  static const ShippedText tables[] = {
${table_entries}  };
  return tables;
}

std::span<const ShippedText> shipped_runs() {
  static const ShippedText runs[] = {
${run_entries}  };
  return runs;
}

}  // namespace llmsim::cli
"
)
