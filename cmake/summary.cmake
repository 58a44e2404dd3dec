# What this build has, a line each, at the end of the configuration.
set(gpu_kernels "off (the cuda preset has them)")
if(HYPERION_CUDA)
  set(gpu_kernels "on, for ${CMAKE_CUDA_ARCHITECTURES}")
endif()
message(STATUS "hyperion: LibTorch ${HYPERION_TORCH_VERSION}; GPU kernels ${gpu_kernels}; ccache ${HYPERION_CCACHE}")
