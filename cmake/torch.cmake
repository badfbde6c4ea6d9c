# LibTorch from the wheel that `./dev setup` unpacked: an imported target of our own (docs/decisions), because the
# wheel's own CMake package asks for a CUDA toolkit and its include folder shadows the system's protobuf headers.
set(MUSTER_TORCH_DIR "$ENV{HOME}/.cache/muster/torch-2.11.0" CACHE PATH "Folder that holds torch/ and nvidia/")
set(torch_root ${MUSTER_TORCH_DIR}/torch)
if(NOT EXISTS ${torch_root}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch is not in ${MUSTER_TORCH_DIR}: run ./dev setup, or configure with -DMUSTER_WITH_TORCH=OFF")
endif()
set(torch_include ${CMAKE_BINARY_DIR}/torch-include)
file(MAKE_DIRECTORY ${torch_include})
file(GLOB torch_entries RELATIVE ${torch_root}/include ${torch_root}/include/*)
list(REMOVE_ITEM torch_entries google)
foreach(entry IN LISTS torch_entries)
  if(NOT EXISTS ${torch_include}/${entry})
    file(CREATE_LINK ${torch_root}/include/${entry} ${torch_include}/${entry} SYMBOLIC)
  endif()
endforeach()
add_library(muster_libtorch INTERFACE)
target_include_directories(muster_libtorch SYSTEM INTERFACE
    ${torch_include} ${torch_root}/include/torch/csrc/api/include)
target_link_libraries(muster_libtorch INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
target_link_options(muster_libtorch INTERFACE -Wl,--disable-new-dtags)
# What a worker loads when it runs; each of these finds the others beside it.
install(FILES ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so ${torch_root}/lib/libgomp.so.1
    ${MUSTER_TORCH_DIR}/nvidia/cu13/lib/libcupti.so.13 ${MUSTER_TORCH_DIR}/nvidia/cu13/lib/libcudart.so.13
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE
    DESTINATION lib)
# What of CUDA is here is looked up when it is installed: `./dev setup cuda` may come later. Left out are names for other
# compilers and interfaces that nothing of LibTorch loads (200 MB).
install(CODE "
    set(torch_lib \"${torch_root}/lib\")
    set(cuda \"${MUSTER_TORCH_DIR}-cuda\")
    if(NOT EXISTS \"\${cuda}/nvidia/cu13/lib/libcusparse.so.12\")
      message(FATAL_ERROR \"There are no libraries of CUDA in \${cuda}: run ./dev setup cuda\")
    endif()
    file(GLOB libraries \${cuda}/nvidia/*/lib/*.so*)
    list(FILTER libraries EXCLUDE REGEX \"/lib(cufftw|nvblas|cusolverMg|cufile_rdma|nvtx3interop|nvrtc.*\\\\.alt)\\\\.so\")
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib\" USE_SOURCE_PERMISSIONS FILES \${libraries}
        \${torch_lib}/libc10_cuda.so \${torch_lib}/libcaffe2_nvrtc.so \${torch_lib}/libtorch.so
        \${torch_lib}/libtorch_cuda.so \${torch_lib}/libtorch_cuda_linalg.so \${torch_lib}/libtorch_nvshmem.so)"
    COMPONENT cuda EXCLUDE_FROM_ALL)
