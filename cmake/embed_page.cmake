# The live page's files, put into hyperion_dash.
file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/hyperion/dash/*.html ${CMAKE_SOURCE_DIR}/hyperion/dash/*.js ${CMAKE_SOURCE_DIR}/hyperion/dash/*.css)
set(page_source ${CMAKE_BINARY_DIR}/generated/page_files.cc)
add_custom_command(OUTPUT ${page_source} DEPENDS ${page_files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  COMMAND ${CMAKE_COMMAND} "-DFILES=${page_files}" -DOUTPUT=${page_source} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(hyperion_dash PRIVATE ${page_source})
set_source_files_properties(${page_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
