# `cmake --install build/cpu --prefix DIR`: the program, the library with its headers, and find_package(hyperion) for programs outside this
# clone. LibTorch and the packages stay where they are; hyperionConfig.cmake finds them there, or where it is told.
include(GNUInstallDirs)
install(TARGETS hyperion RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The program of an installation finds LibTorch and Arrow where this build found them.
set_target_properties(hyperion PROPERTIES INSTALL_RPATH "${HYPERION_TORCH}/lib;${HYPERION_PYARROW}")
set(installed_libraries "")
foreach(folder ${HYPERION_FOLDERS})
  get_target_property(kind hyperion_${folder} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    install(TARGETS hyperion_${folder} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/hyperion)
    list(PREPEND installed_libraries ${folder})  # a library stands before those it uses
  endif()
endforeach()
install(DIRECTORY hyperion DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# What the libraries need beside each other, as paths and flags.
set(installed_packages "")
foreach(package zlib zstd jpeg png pcre2 sqlite libevent crypto parquet)
  if(TARGET hyperion_${package})
    get_target_property(links hyperion_${package} INTERFACE_LINK_LIBRARIES)
    list(APPEND installed_packages ${links})
  endif()
endforeach()
set(installed_headers ${HYPERION_nlohmann_json_hpp} ${HYPERION_CLI_CLI_hpp})
list(REMOVE_DUPLICATES installed_headers)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/hyperionConfig.cmake.in ${CMAKE_BINARY_DIR}/hyperionConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hyperion PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hyperionConfigVersion.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hyperionConfig.cmake ${CMAKE_BINARY_DIR}/hyperionConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hyperion)
