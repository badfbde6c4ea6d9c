# What is installed for those who build plug-ins: headers, LibTorch's too (but for those of protobuf, which would shadow the
# system's), the CMake package, the documents, and examples to copy. They are ten thousand files and a component of their
# own, since what only runs Muster, such as an image, has no use for them. `muster_test_plugin` makes a plug-in in this
# tree, for tests.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/muster DESTINATION include COMPONENT development
    FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/include/muster/version.h DESTINATION include/muster COMPONENT development)
# Side by side, so that the links from one to the other hold.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs ${CMAKE_SOURCE_DIR}/examples DESTINATION share/muster COMPONENT development)
install(DIRECTORY ${torch_root}/include/ DESTINATION include/libtorch COMPONENT development PATTERN google EXCLUDE)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/MusterConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/MusterConfig.cmake ${CMAKE_BINARY_DIR}/MusterConfigVersion.cmake
    DESTINATION lib/cmake/Muster COMPONENT development)

# muster_test_plugin(NAME SOURCE [LibTorch's too: TORCH]): NAME.so in build/<preset>/tests/plugins/NAME.
function(muster_test_plugin name source)
  cmake_parse_arguments(ARG "TORCH" "" "" ${ARGN})
  add_library(${name} MODULE ${source})
  target_link_libraries(${name} PRIVATE muster_options absl::status absl::statusor absl::span)
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE muster_plugin)
  endif()
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/plugins/${name})
endfunction()
