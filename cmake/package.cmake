# `./dev package`: a package of Debian 12, of what people get and of LibTorch. It is a folder, /opt/muster, as `cmake
# --install` makes it elsewhere, with the command `muster` in everybody's PATH by an alternative. And that folder as an
# archive, for those who are not root or put it elsewhere; the packages of Debian that it needs are those that the first names.
set(CPACK_GENERATOR DEB TZST)
set(CPACK_PACKAGE_FILE_NAME muster-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_of.cmake)
set(CPACK_THREADS 0)  # as many as there are cores
set(CPACK_PACKAGE_CONTACT "The Muster developers <muster@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks on clusters: the same bits on any number of workers")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# Of the system's libraries those of Debian are named, with their versions.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_needs.cmake)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/package/postinst ${CMAKE_SOURCE_DIR}/deploy/package/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
