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
# A compiler that has libstdc++ only as an archive would put a second copy beside the one LibTorch loads, and LibTorch's streams
# would be made by one and ended by the other: link the loaded one first.
set(HYPERION_LIBSTDCXX "")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so OUTPUT_VARIABLE own_libstdcxx OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT own_libstdcxx MATCHES "/")
  find_library(HYPERION_SHARED_LIBSTDCXX NAMES libstdc++.so.6 REQUIRED)
  set(HYPERION_LIBSTDCXX ${HYPERION_SHARED_LIBSTDCXX})
endif()
target_link_libraries(hyperion_torch INTERFACE -L${HYPERION_TORCH}/lib ${HYPERION_LIBSTDCXX} -ltorch_cpu -lc10
  -l:libgomp.so.1 -Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,-rpath,${HYPERION_TORCH}/lib)

# fmt is the copy inside LibTorch, reached through a folder that shows nothing else of torch's.
set(fmt_only ${CMAKE_BINARY_DIR}/fmt_only)
file(MAKE_DIRECTORY ${fmt_only})
file(CREATE_LINK ${HYPERION_TORCH}/include/fmt ${fmt_only}/fmt SYMBOLIC)
target_include_directories(hyperion_compiler SYSTEM INTERFACE ${fmt_only})

# Packages of which the headers can be carried in .deps/.
foreach(header toml++/toml.h xxhash.h nlohmann/json.hpp CLI/CLI.hpp openssl/evp.h)
  string(MAKE_C_IDENTIFIER "HYPERION_${header}" variable)
  find_path(${variable} ${header} HINTS ${HYPERION_DEPS}/include)
  if(NOT ${variable})
    message(FATAL_ERROR "${header} not found. Run script/setup.")
  endif()
  if(NOT ${variable} STREQUAL "/usr/include")
    target_include_directories(hyperion_compiler SYSTEM INTERFACE ${${variable}})
  endif()
endforeach()

# By its full name: the link without a number comes only with libssl-dev.
find_library(HYPERION_LIBCRYPTO NAMES libcrypto.so.3 crypto)
if(NOT HYPERION_LIBCRYPTO)
  message(FATAL_ERROR "libcrypto of OpenSSL 3 not found. Run script/setup.")
endif()

# hyperion_package(NAME HEADER LIBRARY): the target hyperion_NAME where both are found; without it its feature is off (hyperion_optional).
set(HYPERION_LEFT_OUT "")
function(hyperion_package name header library)
  find_path(HYPERION_${name}_INCLUDE ${header})
  find_library(HYPERION_${name}_LIBRARY ${library})
  if(HYPERION_${name}_INCLUDE AND HYPERION_${name}_LIBRARY)
    add_library(hyperion_${name} INTERFACE)
    target_link_libraries(hyperion_${name} INTERFACE ${HYPERION_${name}_LIBRARY})
    if(NOT HYPERION_${name}_INCLUDE STREQUAL "/usr/include")
      target_include_directories(hyperion_${name} SYSTEM INTERFACE ${HYPERION_${name}_INCLUDE})
    endif()
  else()
    set(HYPERION_LEFT_OUT ${HYPERION_LEFT_OUT} ${name} PARENT_SCOPE)
  endif()
endfunction()
hyperion_package(zlib zlib.h z)
hyperion_package(zstd zstd.h zstd)
hyperion_package(jpeg jpeglib.h jpeg)
hyperion_package(png png.h png)
hyperion_package(pcre2 pcre2.h pcre2-8)
hyperion_package(sqlite sqlite3.h sqlite3)
hyperion_package(libevent event2/http.h event)

# Arrow, for Parquet: out of the pyarrow wheel (script/setup).
set(HYPERION_PYARROW ${HYPERION_DEPS}/pyarrow CACHE PATH "The pyarrow package's folder")
file(GLOB arrow_libraries ${HYPERION_PYARROW}/libparquet.so.* ${HYPERION_PYARROW}/libarrow.so.*)
if(EXISTS ${HYPERION_PYARROW}/include/parquet/arrow/reader.h AND arrow_libraries)
  add_library(hyperion_parquet INTERFACE)
  target_include_directories(hyperion_parquet SYSTEM INTERFACE ${HYPERION_PYARROW}/include)
  target_link_libraries(hyperion_parquet INTERFACE ${arrow_libraries} -Wl,-rpath,${HYPERION_PYARROW})
else()
  list(APPEND HYPERION_LEFT_OUT parquet)
endif()

find_package(Threads REQUIRED)
target_link_libraries(hyperion_compiler INTERFACE Threads::Threads dl)

include(cuda)
