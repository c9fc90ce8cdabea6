// Copies of 16 bytes from global to shared memory that run beside the arithmetic (sm_80 and later).
#pragma once

#include <cstdint>

namespace rafter::kernels::cuda {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// `size` 16, or 0: nothing is read and zeros are written.
__device__ inline void copy_async(void* shared, const void* global, int size = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(size)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace rafter::kernels::cuda
