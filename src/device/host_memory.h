// Host memory for caches, activations and scratch: reserved at once, paid for page by page as it is touched,
// on huge pages where the kernel gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace rafter::device {

class HostMemory {
 public:
  // Reserves address space; zero-filled on first touch. Error: out_of_memory when even the addresses are
  // refused.
  static base::Result<HostMemory> reserve(size_t bytes);

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Physical memory that a new allocation may take without swapping, in bytes (MemAvailable, bounded by the
// cgroup's limit).
uint64_t available_memory();

// All memory that this process may ever take: the machine's, bounded by the cgroup's limit.
uint64_t memory_limit();

}  // namespace rafter::device
