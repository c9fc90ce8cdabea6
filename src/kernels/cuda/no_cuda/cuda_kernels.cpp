#include "kernels/cuda/cuda_kernels.h"

namespace rafter::kernels {

const CudaKernels* cuda_kernels() { return nullptr; }

}  // namespace rafter::kernels
