# Writes OUTPUT: the C++ source of shipped_facts.h.  FACTS are the files that go into the database, STACKS the file of the
# training frameworks, ROWS the tables of launch files.  The assembler reads the files, so compiling stays fast; the hash makes the source change whenever a file does.
function(embed symbol path)
  file(SHA256 ${path} hash)
  set(assembly "${assembly}${symbol}:\\n .incbin \\\"${path}\\\"\\n${symbol}_end:\\n" PARENT_SCOPE)
  set(declarations "${declarations}extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n" PARENT_SCOPE)
  set(hash ${hash} PARENT_SCOPE)
endfunction()

set(hashes "")
set(entries "")
foreach(path IN LISTS FACTS)
  get_filename_component(name ${path} NAME_WE)
  embed(llmsim_fact_${name} ${path})
  string(APPEND hashes "${name}:${hash};")
  string(APPEND entries "      {\"${name}\", text(llmsim_fact_${name}, llmsim_fact_${name}_end)},\n")
endforeach()
string(SHA256 digest "${hashes}")

embed(llmsim_fact_frameworks ${STACKS})
set(other_hashes "${hash}")
set(rows "")
foreach(path IN LISTS ROWS)
  get_filename_component(name ${path} NAME_WE)
  embed(llmsim_rows_${name} ${path})
  string(APPEND other_hashes " ${hash}")
  string(APPEND rows "      {\"${name}\", text(llmsim_rows_${name}, llmsim_rows_${name}_end)},\n")
endforeach()

file(
  WRITE ${OUTPUT}
  "// ${other_hashes}: hashes of the frameworks and of the rows
#include \"hwdb/store/shipped_facts.h\"

__asm__(\".section .rodata\\n${assembly} .byte 0\\n .previous\\n\");
extern \"C\" {
${declarations}}

namespace llmsim::hwdb {
namespace {

std::string_view text(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

}  // namespace

std::span<const ShippedFacts> shipped_facts() {
  static const ShippedFacts facts[] = {
${entries}  };
  return facts;
}

std::span<const ShippedFacts> shipped_launch_rows() {
  static const ShippedFacts rows[] = {
${rows}  };
  return rows;
}

std::string_view shipped_facts_hash() { return \"${digest}\"; }

std::string_view shipped_frameworks_json() { return text(llmsim_fact_frameworks, llmsim_fact_frameworks_end); }

}  // namespace llmsim::hwdb
"
)
