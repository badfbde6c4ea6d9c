# find_package(Muster): the target Muster::plugin, and muster_add_plugin(NAME SOURCE...), which makes a plug-in of it.
include(CMakeFindDependencyMacro)
find_dependency(absl)
get_filename_component(muster_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(muster_libtorch ${muster_prefix}/include/libtorch ${muster_prefix}/include/libtorch/torch/csrc/api/include)

if(NOT TARGET Muster::plugin)
  add_library(Muster::plugin SHARED IMPORTED)
  set_target_properties(Muster::plugin PROPERTIES
      IMPORTED_LOCATION ${muster_prefix}/lib/libmuster_plugin.so
      INTERFACE_INCLUDE_DIRECTORIES "${muster_prefix}/include;${muster_libtorch}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${muster_libtorch}"
      INTERFACE_LINK_LIBRARIES "absl::status;absl::statusor;absl::span;${muster_prefix}/lib/libtorch_cpu.so;${muster_prefix}/lib/libc10.so"
      INTERFACE_COMPILE_FEATURES cxx_std_20
      # A product that is added is rounded first, as everywhere in Muster.
      INTERFACE_COMPILE_OPTIONS -ffp-contract=off)
endif()

# NAME.so in the build folder, for --plugins. Of it only muster_plugin is seen.
function(muster_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE Muster::plugin)
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
