# Writes OUTPUT: the C++ source of page_files.h.  FRAME and STYLE are files, SCRIPT a list of files in the order in which they run, PLANNER
# the module of interactive pages, or empty.  The assembler reads the files; the hashes make the source change whenever a file does.
set(hashes "")
set(assembly "")
function(embed symbol)
  set(text "${symbol}:\\n")
  foreach(path IN LISTS ARGN)
    file(SHA256 ${path} hash)
    string(APPEND hashes "// ${hash}\n")
    string(APPEND text " .incbin \\\"${path}\\\"\\n")
  endforeach()
  set(hashes "${hashes}" PARENT_SCOPE)
  set(assembly "${assembly}${text}${symbol}_end:\\n" PARENT_SCOPE)
endfunction()

embed(llmsim_page_frame ${FRAME})
embed(llmsim_page_style ${STYLE})
embed(llmsim_page_script ${SCRIPT})
embed(llmsim_page_planner ${PLANNER})

set(declarations "")
set(definitions "")
foreach(name IN ITEMS frame style script planner)
  string(APPEND declarations "extern const char llmsim_page_${name}[];\nextern const char llmsim_page_${name}_end[];\n")
  string(APPEND definitions "std::string_view page_${name}() { return text(llmsim_page_${name}, llmsim_page_${name}_end); }\n")
endforeach()

file(
  WRITE ${OUTPUT}
  "${hashes}#include \"reports/page/page_files.h\"

#include <cstddef>

__asm__(\".section .rodata\\n${assembly} .byte 0\\n .previous\\n\");
extern \"C\" {
${declarations}}

namespace llmsim::reports {
namespace {

std::string_view text(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

}  // namespace

${definitions}
}  // namespace llmsim::reports
"
)
