# Sets page_planner: the planner as WebAssembly, packed, where LLMSIM_WITH_WEB asks for it.  It is this project built once more, with
# Emscripten (cli/web/CMakeLists.txt).
set(page_planner)
if(NOT LLMSIM_WITH_WEB)
  return()
endif()

find_program(LLMSIM_EMCMAKE emcmake)
find_program(LLMSIM_GZIP gzip)
foreach(program IN ITEMS LLMSIM_EMCMAKE LLMSIM_GZIP)
  if(NOT ${program})
    message(FATAL_ERROR "LLMSIM_WITH_WEB: emcmake of Emscripten (Debian: emscripten) and gzip are needed")
  endif()
endforeach()
set(web ${PROJECT_BINARY_DIR}/web)
file(GLOB_RECURSE planner_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/* ${PROJECT_SOURCE_DIR}/hwdb/* ${PROJECT_SOURCE_DIR}/cli/*.cpp
     ${PROJECT_SOURCE_DIR}/cli/*.h ${PROJECT_SOURCE_DIR}/cli/web/* ${PROJECT_SOURCE_DIR}/reports/*.cpp ${PROJECT_SOURCE_DIR}/reports/*.h
)
set(page_planner ${web}/planner.wasm.gz)
add_custom_command(
  OUTPUT ${page_planner}
  COMMAND ${LLMSIM_EMCMAKE} ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${web} -G Ninja -DCMAKE_BUILD_TYPE=Release
          -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_FLAGS=-fwasm-exceptions
  COMMAND ${CMAKE_COMMAND} --build ${web} --target planner
  COMMAND ${LLMSIM_GZIP} -9nkf ${web}/planner.wasm
  DEPENDS ${planner_sources} ${PROJECT_SOURCE_DIR}/CMakeLists.txt
  COMMENT "Compiling the planner to WebAssembly"
  VERBATIM
)
