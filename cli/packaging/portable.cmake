# llmsim_portable: the program without shared libraries, for any Linux of the same processor whatever its C library is.
# cli/packaging/tarball packs it.
#
# It is linked from the libraries of the build; fmt, of which Debian has no archive, is compiled from its headers.
find_library(LLMSIM_SQLITECPP_ARCHIVE libSQLiteCpp.a)
find_library(LLMSIM_SQLITE_ARCHIVE libsqlite3.a)
find_library(LLMSIM_YAML_ARCHIVE libyaml-cpp.a)
find_library(LLMSIM_ZLIB_ARCHIVE libz.a)
if(NOT LLMSIM_SQLITECPP_ARCHIVE OR NOT LLMSIM_SQLITE_ARCHIVE OR NOT LLMSIM_YAML_ARCHIVE OR NOT LLMSIM_ZLIB_ARCHIVE OR LLMSIM_SANITIZE)
  return()
endif()
set(portable ${PROJECT_BINARY_DIR}/portable/llmsim)
list(TRANSFORM portable_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
set(archives "")
foreach(library IN ITEMS cli reports calibrate hwdb catalogue sim)
  list(APPEND archives $<TARGET_FILE:llmsim_${library}>)
endforeach()
add_custom_command(
  OUTPUT ${portable}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/portable
  COMMAND
    ${CMAKE_CXX_COMPILER} -std=c++20 -static -s -fkeep-inline-functions -I ${PROJECT_SOURCE_DIR} -DLLMSIM_VERSION="${PROJECT_VERSION}"
    ${sources} ${archives} ${LLMSIM_SQLITECPP_ARCHIVE}
    ${LLMSIM_SQLITE_ARCHIVE} ${LLMSIM_YAML_ARCHIVE} ${LLMSIM_ZLIB_ARCHIVE} -o ${portable}
  DEPENDS ${sources} llmsim_cli llmsim_reports llmsim_calibrate llmsim_hwdb llmsim_catalogue
          llmsim_sim
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  VERBATIM
)
add_custom_target(llmsim_portable DEPENDS ${portable})
