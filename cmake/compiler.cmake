# Warnings, sanitizers and the compiler cache: what every target of ours is built with.
add_library(hyperion_compiler INTERFACE)
target_compile_options(hyperion_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>)
target_include_directories(hyperion_compiler INTERFACE ${CMAKE_SOURCE_DIR})
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(HYPERION_SANITIZE)
  add_compile_options(-fsanitize=${HYPERION_SANITIZE} -fno-sanitize-recover=all)
  # Instrumented code hides from g++ what is initialised; the other builds keep this warning.
  target_compile_options(hyperion_compiler INTERFACE -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${HYPERION_SANITIZE})
endif()

find_program(HYPERION_CCACHE ccache)
if(HYPERION_CCACHE)
  # Paths are hashed relative to the checkout, so that every clone on a machine shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${HYPERION_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
