# Run at every build: writes OUTPUT only when the version or commit changed, so that nothing else is rebuilt.
file(STRINGS ${SOURCE}/VERSION version LIMIT_COUNT 1)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+ --abbrev=7 --exclude=* OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET)
if(NOT commit)
  set(commit "no commit")
endif()
set(text "constexpr const char* kVersionText = \"${version} (${commit})\";\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
