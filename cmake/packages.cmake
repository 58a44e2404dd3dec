# Outside packages, each from apt or PyPI (script/setup), found in .deps/ first. No third-party source is in this repository.
set(HYPERION_DEPS ${CMAKE_SOURCE_DIR}/.deps)

# LibTorch: .deps/torch, else the one python3 has.
if(NOT HYPERION_TORCH)
  if(EXISTS ${HYPERION_DEPS}/torch/include/ATen/ATen.h)
    set(HYPERION_TORCH ${HYPERION_DEPS}/torch)
  else()
    execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE HYPERION_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT EXISTS "${HYPERION_TORCH}/include/ATen/ATen.h")
  message(FATAL_ERROR "LibTorch 2.11 not found. Run script/setup, or pass -DHYPERION_TORCH=<folder with include/ and lib/>.")
endif()
file(STRINGS ${HYPERION_TORCH}/include/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^;0-9]" "" version_numbers "${version_lines}")
string(REPLACE ";" "." HYPERION_TORCH_VERSION "${version_numbers}")
if(NOT HYPERION_TORCH_VERSION VERSION_GREATER_EQUAL 2.11)
  message(FATAL_ERROR "LibTorch at ${HYPERION_TORCH} is ${HYPERION_TORCH_VERSION}; 2.11 is needed. Run script/setup.")
endif()

add_library(hyperion_torch INTERFACE)
target_include_directories(hyperion_torch SYSTEM INTERFACE
  ${HYPERION_TORCH}/include ${HYPERION_TORCH}/include/torch/csrc/api/include)
target_compile_options(hyperion_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(hyperion_torch INTERFACE -L${HYPERION_TORCH}/lib -ltorch_cpu -lc10
  -l:libgomp.so.1 -Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,-rpath,${HYPERION_TORCH}/lib)

# fmt is the copy inside LibTorch, reached through a folder that shows nothing else of torch's.
set(fmt_only ${CMAKE_BINARY_DIR}/fmt_only)
file(MAKE_DIRECTORY ${fmt_only})
file(CREATE_LINK ${HYPERION_TORCH}/include/fmt ${fmt_only}/fmt SYMBOLIC)
target_include_directories(hyperion_compiler SYSTEM INTERFACE ${fmt_only})

# Header-only packages.
foreach(header toml++/toml.h xxhash.h nlohmann/json.hpp CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "HYPERION_${header}" variable)
  find_path(${variable} ${header} HINTS ${HYPERION_DEPS}/include)
  if(NOT ${variable})
    message(FATAL_ERROR "${header} not found. Run script/setup.")
  endif()
  if(NOT ${variable} STREQUAL "/usr/include")
    target_include_directories(hyperion_compiler SYSTEM INTERFACE ${${variable}})
  endif()
endforeach()

find_package(Threads REQUIRED)
target_link_libraries(hyperion_compiler INTERFACE Threads::Threads dl)

# Image formats, each optional: without its library a stub takes its place.
set(HYPERION_ABSENT "")
add_library(hyperion_image_formats INTERFACE)
foreach(format JPEG PNG)
  find_package(${format})
  if(${format}_FOUND)
    target_link_libraries(hyperion_image_formats INTERFACE ${format}::${format})
  else()
    string(TOLOWER ${format} lower)
    list(APPEND HYPERION_ABSENT decode_${lower})
  endif()
endforeach()

if(HYPERION_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  find_package(CUDAToolkit REQUIRED)
  target_compile_definitions(hyperion_torch INTERFACE HYPERION_WITH_CUDA)
  target_include_directories(hyperion_torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(hyperion_torch INTERFACE -Wl,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--as-needed CUDA::cudart)
endif()
