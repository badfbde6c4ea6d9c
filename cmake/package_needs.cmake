# Which packages of Debian the programs and libraries need, by `dpkg-shlibdeps`: read by cpack between installing and
# packing. What CPack brings for this (CPACK_DEBIAN_PACKAGE_SHLIBDEPS) starts two processes for each of LibTorch's 9,400
# headers to see that it is no program, which takes minutes; here the first four bytes of a file tell.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
file(GLOB_RECURSE files LIST_DIRECTORIES false ${CPACK_TEMPORARY_DIRECTORY}/*)
set(programs)
foreach(file IN LISTS files)
  file(READ ${file} magic LIMIT 4 HEX)
  if(magic STREQUAL 7f454c46)  # ELF
    list(APPEND programs ${file})
  endif()
endforeach()
if(NOT programs)
  message(FATAL_ERROR "There is no program in ${CPACK_TEMPORARY_DIRECTORY}")
endif()

# It asks for a source package's folder, which is empty here. Our own libraries, and LibTorch's, belong to no package.
set(folder ${CPACK_TOPLEVEL_DIRECTORY}/needs)
file(MAKE_DIRECTORY ${folder}/debian)
file(WRITE ${folder}/debian/control "")
execute_process(
    COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C dpkg-shlibdeps
        -l${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}/lib --ignore-missing-info -O ${programs}
    WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE said ERROR_VARIABLE wrong RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT said MATCHES "shlibs:Depends=([^\n]+)")
  message(FATAL_ERROR "dpkg-shlibdeps does not tell what the programs need (${result}): ${said}${wrong}")
endif()
set(CPACK_DEBIAN_PACKAGE_DEPENDS ${CMAKE_MATCH_1})
