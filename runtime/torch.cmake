# llmsim::torch: include folders, libraries and definitions of libtorch, made by hand because its own CMake package looks for a
# whole CUDA or ROCm toolkit that a machine with a prebuilt libtorch need not have.
set(LLMSIM_TORCH_ROOT "" CACHE PATH "Folder of a libtorch release or of a Python wheel's torch package (with include/ and lib/)")

set(torch_roots ${LLMSIM_TORCH_ROOT})
if(NOT torch_roots)
  list(APPEND torch_roots /usr /usr/local)
  execute_process(
    COMMAND python3 -c "import torch; print(torch.__path__[0])" OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  )
  list(APPEND torch_roots ${wheel})
endif()
set(torch_find HINTS ${torch_roots} NO_CMAKE_FIND_ROOT_PATH)
find_path(TORCH_INCLUDE_DIR ATen/ATen.h ${torch_find} PATH_SUFFIXES include REQUIRED)
find_path(TORCH_API_INCLUDE_DIR torch/types.h ${torch_find} PATH_SUFFIXES include/torch/csrc/api/include REQUIRED)
set(torch_libraries)
foreach(library IN ITEMS torch torch_cpu c10)
  find_library(TORCH_LIBRARY_${library} ${library} ${torch_find} PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE} REQUIRED)
  list(APPEND torch_libraries ${TORCH_LIBRARY_${library}})
endforeach()
# Devices register themselves when their library is loaded.
foreach(library IN ITEMS torch_cuda c10_cuda torch_hip c10_hip)
  find_library(TORCH_LIBRARY_${library} ${library} ${torch_find} PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE})
  if(TORCH_LIBRARY_${library})
    list(APPEND torch_libraries ${TORCH_LIBRARY_${library}})
  endif()
endforeach()

add_library(llmsim_torch INTERFACE)
add_library(llmsim::torch ALIAS llmsim_torch)
target_include_directories(llmsim_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIR} ${TORCH_API_INCLUDE_DIR})
# NDEBUG is part of libtorch's ABI: at::RecordFunction has a member without it.
target_compile_definitions(llmsim_torch INTERFACE NDEBUG USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(llmsim_torch INTERFACE -Wl,--no-as-needed ${torch_libraries} -Wl,--as-needed)

# CUDA graphs and the figures of the caching allocator need the toolkit's headers.
find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime_api.h PATHS /usr/local/cuda/include)
if(TORCH_LIBRARY_torch_cuda AND CUDA_RUNTIME_INCLUDE_DIR)
  target_include_directories(llmsim_torch SYSTEM INTERFACE ${CUDA_RUNTIME_INCLUDE_DIR})
  target_compile_definitions(llmsim_torch INTERFACE LLMSIM_HAVE_CUDA_HEADERS=1)
else()
  target_compile_definitions(llmsim_torch INTERFACE LLMSIM_HAVE_CUDA_HEADERS=0)
endif()
