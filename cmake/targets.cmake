include(GoogleTest)

# muster_library(NAME SRCS … DEPS … [PRIVATE_DEPS …]): target muster_NAME; a library without sources is header-only.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(muster_${name} STATIC ${ARG_SRCS})
    target_link_libraries(muster_${name} PUBLIC muster_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  else()
    add_library(muster_${name} INTERFACE)
    target_link_libraries(muster_${name} INTERFACE muster_options ${ARG_DEPS})
  endif()
endfunction()

# The target `programs` builds every program, and no test.
add_custom_target(programs)

# muster_program(NAME SRCS … DEPS …): an executable in build/<preset>/bin.
function(muster_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE muster_options ${ARG_DEPS})
  add_dependencies(programs ${name})
endfunction()

# muster_shipped_program(NAME SRCS … DEPS …): a program that people get, which speaks no plain text. NAME-parts is all of
# it but what says so (lib/launch/plaintext.h); bench/plaintext makes another program of that.
function(muster_shipped_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name}-parts OBJECT ${ARG_SRCS})
  target_link_libraries(${name}-parts PUBLIC muster_options muster_launch_plaintext ${ARG_DEPS})
  add_executable(${name} ${CMAKE_SOURCE_DIR}/lib/launch/no_plaintext.cc)
  target_link_libraries(${name} PRIVATE ${name}-parts)
  add_dependencies(programs ${name})
  # Libraries that are no part of the system lie beside it: cmake --install makes a folder that can be moved.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# generated_sources makes what is generated and builds nothing: who reads sources needs no more (./dev lint).
add_custom_target(generated_sources)
function(muster_generated name)
  add_custom_target(${name}_generated DEPENDS ${ARGN})
  add_dependencies(generated_sources ${name}_generated)
endfunction()

# tests_LABEL builds the tests of one label; `asan` and `tsan` mark the integration tests chosen for a sanitizer,
# `sanitized` those that every `./dev test` repeats under this preset's sanitizer (tests/CMakeLists.txt names them).
foreach(label unit sim integration slow cluster launchers soak asan tsan sanitized)
  add_custom_target(tests_${label})
endforeach()

# muster_test(NAME SRCS … DEPS … [LABEL unit] [ALSO asan tsan] [TIMEOUT 60] [PROGRAMS …] [WHOLE]): one GoogleTest
# binary. Each case is a ctest entry, or the binary is one with WHOLE (for what is slow to start). PROGRAMS are built
# before it. Integration and cluster tests run alone; under a sanitizer the timeout is five times as long.
function(muster_test name)
  cmake_parse_arguments(ARG "WHOLE" "LABEL;TIMEOUT" "SRCS;DEPS;ALSO;PROGRAMS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(name IN_LIST MUSTER_SANITIZED_TESTS)
    list(APPEND ARG_ALSO sanitized)
  endif()
  if(MUSTER_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  set(serial FALSE)
  if(ARG_LABEL MATCHES "^(integration|cluster|launchers)$")
    set(serial TRUE)
  endif()
  add_executable(${name} ${ARG_SRCS} $<TARGET_OBJECTS:test_scratch_folder>)
  target_link_libraries(${name} PRIVATE muster_options ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_PROGRAMS)
    add_dependencies(${name} ${ARG_PROGRAMS})
  endif()
  foreach(label IN LISTS ARG_LABEL ARG_ALSO)
    add_dependencies(tests_${label} ${name})
  endforeach()
  set(labels ${ARG_LABEL} ${ARG_ALSO})
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${serial})
  else()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
        PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${serial})
  endif()
  if(ARG_ALSO AND NOT ARG_WHOLE)
    # gtest_discover_tests cannot pass on a list of labels.
    set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
    file(WRITE ${labels_file} "foreach(test IN LISTS ${name}_TESTS)\n"
        "  set_tests_properties(\${test} PROPERTIES LABELS \"${labels}\")\nendforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  endif()
endfunction()
