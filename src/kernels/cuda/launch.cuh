// Programmatic dependent launch: a kernel may start while the one before it drains.
//
//   start_next()        first thing in every kernel: the next one may come in as soon as all blocks have said
//   so wait_for_inputs()   before a block reads or writes anything but weights; every block must call it: one
//   that
//                       left without waiting would let its grid end before the one it depends on
//
// Since every grid waits, waiting for the one before means waiting for all before it.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace rafter::kernels::cuda {

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes, void* stream,
            const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &overlap;
  config.numAttrs = 1;
  // All kernels ask for the same division of an SM's memory: one that asks for another waits until the SM is
  // empty.
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  constexpr size_t kWithoutAsking = 32 * 1024;  // of 48 KiB with what the kernel declares itself
  if (shared_bytes > kWithoutAsking)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  cudaLaunchKernelEx(&config, kernel, arguments...);  // an error shows at check_launches or the capture's end
}

__device__ inline void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace rafter::kernels::cuda
