// Programmatic dependent launch: a kernel may start while the one before it drains. Each kernel calls
// wait_for_inputs() before it reads or writes anything but weights, in every block: a block that left without
// waiting would let its grid end before the one it depends on.
#pragma once

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
  cudaLaunchKernelEx(&config, kernel, arguments...);  // an error shows at check_launches or the capture's end
}

__device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace rafter::kernels::cuda
