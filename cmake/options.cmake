# What every target of ours is compiled with. Equal bits rest on -ffp-contract=off (docs/architecture.md section 1).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(MUSTER_WITH_TORCH "Build what needs LibTorch (worker tasks other than counting)" ON)
option(MUSTER_WERROR "Warnings are errors" ON)
set(MUSTER_SANITIZE "" CACHE STRING "address;undefined or thread")

add_library(muster_options INTERFACE)
target_compile_options(muster_options INTERFACE
    -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
    $<$<BOOL:${MUSTER_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # GCC builds what runs and warns; clang is here for its thread-safety analysis alone (preset thread-safety).
  target_compile_options(muster_options INTERFACE -Wno-everything -Wthread-safety -Werror=thread-safety)
endif()
configure_file(${CMAKE_SOURCE_DIR}/include/muster/version.h.in ${CMAKE_BINARY_DIR}/include/muster/version.h @ONLY)
target_include_directories(muster_options INTERFACE
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)

if(MUSTER_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Release")
  # What GCC adds for a sanitizer hides from it that a value was set; at -O3 GCC 12 takes the
  # alternatives that a std::variant does not hold for values that were not set, and a text that is
  # put before another for one that overlaps it (its bug 105651).
  target_compile_options(muster_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
foreach(sanitizer IN LISTS MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${sanitizer} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizer})
endforeach()

if("fuzzer-no-link" IN_LIST MUSTER_SANITIZE)
  # What GCC built, Debian's libraries, has not what the first two look at; a finding ends the run.
  add_compile_options(-fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
endif()

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSTER_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${MUSTER_CCACHE})
endif()
