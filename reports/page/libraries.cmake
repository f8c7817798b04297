# Sets page_libraries_script and page_libraries_style: the libraries of pages, each one file, or nothing where they cannot be had.
#
# npm fetches them when the build is configured, by the lock, into the build folder: once, until the lock or libraries.js changes, within
# time limits.  The program is built without pages where that fails.  Another build takes them from the folder of an earlier one, and
# asks neither npm nor the network:
#
#   -DLLMSIM_PAGE_LIBRARIES=FOLDER         for example build/release/reports/page_libraries
option(LLMSIM_PAGE "Build pages (llmsim report), whose libraries npm fetches" ON)
set(LLMSIM_PAGE_LIBRARIES "" CACHE PATH "Folder that has the libraries of pages: libraries.js and libraries.css of another build")
set(page_libraries_script)
set(page_libraries_style)
if(NOT LLMSIM_PAGE)
  return()
endif()

# Runs a command of npm's world in `folder`; `failure` becomes what it says where it fails.
function(run_within seconds folder)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${folder}/node_modules ${ARGN}
    WORKING_DIRECTORY ${folder}
    TIMEOUT ${seconds}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said
  )
  if(NOT result EQUAL 0)
    string(SUBSTRING "${result}: ${said}" 0 200 why)
    string(REPLACE "\n" " " why "${why}")
    set(failure "${why}" PARENT_SCOPE)
  endif()
endfunction()

# Fetches and bundles them into `folder`; `failure` becomes why not.
function(fetch_page_libraries folder)
  find_program(LLMSIM_NPM npm)
  if(NOT LLMSIM_NPM)
    set(failure "npm is not there" PARENT_SCOPE)
    return()
  endif()
  message(STATUS "Fetching the libraries of pages")
  set(failure)
  file(MAKE_DIRECTORY ${folder})
  file(COPY ${page}/package.json ${page}/package-lock.json DESTINATION ${folder})
  run_within(180 ${folder} ${LLMSIM_NPM} ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000)
  if(NOT failure)
    run_within(60 ${folder} ${folder}/node_modules/.bin/esbuild ${page}/libraries.js --bundle --minify --format=iife
               --global-name=libraries --log-level=warning --outfile=${folder}/libraries.js)
  endif()
  file(REMOVE_RECURSE ${folder}/node_modules)
  set(failure "${failure}" PARENT_SCOPE)
endfunction()

set(page_libraries ${LLMSIM_PAGE_LIBRARIES})
if(NOT page_libraries)
  set(page_libraries ${CMAKE_CURRENT_BINARY_DIR}/page_libraries)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page}/package-lock.json ${page}/libraries.js)
  file(SHA256 ${page}/package-lock.json lock)
  file(SHA256 ${page}/libraries.js used)
  set(made_from "")
  if(EXISTS ${page_libraries}/made_from)
    file(READ ${page_libraries}/made_from made_from)
  endif()
  if(NOT made_from STREQUAL "${lock} ${used}")
    file(REMOVE ${page_libraries}/made_from ${page_libraries}/libraries.js ${page_libraries}/libraries.css)
    fetch_page_libraries(${page_libraries})
    if(NOT failure)
      file(WRITE ${page_libraries}/made_from "${lock} ${used}")
    endif()
  endif()
elseif(NOT EXISTS ${page_libraries}/libraries.js OR NOT EXISTS ${page_libraries}/libraries.css)
  message(FATAL_ERROR "LLMSIM_PAGE_LIBRARIES = ${page_libraries}: a folder with libraries.js and libraries.css is expected")
endif()

if(EXISTS ${page_libraries}/libraries.js AND EXISTS ${page_libraries}/libraries.css)
  set(page_libraries_script ${page_libraries}/libraries.js)
  set(page_libraries_style ${page_libraries}/libraries.css)
else()
  message(STATUS "The program is built without pages (llmsim report), as their libraries cannot be had: ${failure}")
  message(STATUS "To have them: install npm, let it reach its registry, and configure again; or -DLLMSIM_PAGE_LIBRARIES=FOLDER")
endif()
