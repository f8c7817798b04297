# torch_find: where libtorch is looked for, as options of find_path() and find_library().
#
# LLMSIM_TORCH_ROOT alone where it is set; else CMAKE_PREFIX_PATH, the wheel of python3, and where a distribution has it.
set(LLMSIM_TORCH_ROOT "" CACHE PATH "Folder of a libtorch release or of a Python wheel's torch package (with include/ and lib/)")

set(torch_roots ${LLMSIM_TORCH_ROOT})
if(NOT torch_roots)
  set(torch_roots ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
  execute_process(
    COMMAND python3 -c "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])" OUTPUT_VARIABLE wheel
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  )
  list(APPEND torch_roots ${wheel} /usr /usr/local)
endif()
set(torch_find HINTS ${torch_roots} NO_CMAKE_FIND_ROOT_PATH)
