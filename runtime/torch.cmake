# llmsim::torch: include folders, libraries and definitions of libtorch, made by hand because its own CMake package looks for a
# whole CUDA or ROCm toolkit that a machine with a prebuilt libtorch need not have.
include(${CMAKE_CURRENT_LIST_DIR}/torch_roots.cmake)
find_path(TORCH_INCLUDE_DIR ATen/ATen.h ${torch_find} PATH_SUFFIXES include REQUIRED)
# Wheels up to 2.5 have std::string as GCC 4 had it; a link with them ends in undefined symbols.
cmake_path(SET torch_config NORMALIZE ${TORCH_INCLUDE_DIR}/../share/cmake/Torch/TorchConfig.cmake)
if(EXISTS ${torch_config})
  file(STRINGS ${torch_config} old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(old_abi)
    message(FATAL_ERROR "the libtorch in ${TORCH_INCLUDE_DIR} was built with the C++ ABI of GCC 4 (_GLIBCXX_USE_CXX11_ABI=0), as wheels before "
                        "2.6 are: take a newer wheel, or the cxx11-abi archive of that release, and name it by LLMSIM_TORCH_ROOT")
  endif()
endif()
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

# CUDA graphs and the figures of the caching allocator need the toolkit's headers, and its runtime library is called: of CUDA_HOME, else of
# a wheel (nvidia/cu13, nvidia/cuda_runtime beside torch), else of a module or the usual place.
set(cuda_roots $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${TORCH_INCLUDE_DIR}/../../nvidia/cu13 ${TORCH_INCLUDE_DIR}/../../nvidia/cuda_runtime
    $ENV{CUDATOOLKIT_HOME} /usr/local/cuda /usr/lib/cuda
)
find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_roots} PATH_SUFFIXES include targets/x86_64-linux/include)
find_library(CUDA_RUNTIME_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${cuda_roots} PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib)
if(TORCH_LIBRARY_torch_cuda AND CUDA_RUNTIME_INCLUDE_DIR AND CUDA_RUNTIME_LIBRARY)
  target_include_directories(llmsim_torch SYSTEM INTERFACE ${CUDA_RUNTIME_INCLUDE_DIR})
  target_compile_definitions(llmsim_torch INTERFACE LLMSIM_HAVE_CUDA_HEADERS=1)
  target_link_libraries(llmsim_torch INTERFACE ${CUDA_RUNTIME_LIBRARY})
  # What a wheel's libraries want in turn lies beside them, where the loader finds it and the linker does not look.
  target_link_options(llmsim_torch INTERFACE -Wl,--allow-shlib-undefined)
else()
  target_compile_definitions(llmsim_torch INTERFACE LLMSIM_HAVE_CUDA_HEADERS=0)
  if(TORCH_LIBRARY_torch_cuda)
    message(WARNING "this libtorch is for CUDA, but cuda_runtime_api.h or libcudart was not found: graphs are not captured and peaks of memory "
                    "are not read; name the toolkit by CUDA_HOME")
  endif()
endif()
