# What differs between the kinds of packages: read by cpack, once for each (cmake/package.cmake).
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /opt/muster)
else()
  set(CPACK_PACKAGING_INSTALL_PREFIX /)  # one folder, of the archive's name
endif()
