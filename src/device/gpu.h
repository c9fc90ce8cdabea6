// One GPU behind plain C++: memory, a stream, captured graphs, as RAII. device/cuda implements it,
// device/no_cuda (a build without CUDA) refuses every call; which one is chosen when linking. No CUDA type
// appears here.
//
// Errors name the call that failed. A fault on the device (a bad address, an error of the memory) shows at
// the next call on any object; the device then answers nothing but errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rafter::device {

struct GpuInfo {
  std::string name;
  int index = 0;
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // of its own memory that a block can get at most
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// Whether this build can use a GPU at all.
bool built_with_cuda();

// Makes GPU `index` the calling thread's and describes it. Error unsupported: no CUDA in this build, no
// driver, or no such device.
base::Result<GpuInfo> use_gpu(int index);

// Device memory; uninitialised.
class GpuMemory {
 public:
  static base::Result<GpuMemory> allocate(size_t bytes);
  GpuMemory() = default;
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Host memory that the device copies from and to without a detour.
class PinnedMemory {
 public:
  static base::Result<PinnedMemory> allocate(size_t bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// A captured sequence of launches.
class GpuGraph {
 public:
  GpuGraph() = default;
  GpuGraph(GpuGraph&& other) noexcept;
  GpuGraph& operator=(GpuGraph&& other) noexcept;
  ~GpuGraph();
  bool empty() const { return executable_ == nullptr; }

 private:
  friend class GpuStream;
  void* executable_ = nullptr;
};

// A point in a stream that the host can wait for.
class GpuEvent {
 public:
  static base::Result<GpuEvent> create();
  GpuEvent() = default;
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&& other) noexcept;
  ~GpuEvent();
  base::Status wait_blocking();

 private:
  friend class GpuStream;
  void* handle_ = nullptr;
};

class GpuStream {
 public:
  static base::Result<GpuStream> create();
  GpuStream() = default;
  GpuStream(GpuStream&& other) noexcept;
  GpuStream& operator=(GpuStream&& other) noexcept;
  ~GpuStream();

  // Asynchronous when the host side is pinned.
  base::Status copy_to_device(void* to, const void* from, size_t bytes);
  base::Status copy_to_host(void* to, const void* from, size_t bytes);
  base::Status copy_on_device(void* to, const void* from, size_t bytes);
  base::Status fill_zero(void* to, size_t bytes);
  base::Status synchronize_blocking();
  // The error that launches since the last call left behind, if any.
  base::Status check_launches(const char* what);

  base::Status begin_capture();
  base::Result<GpuGraph> end_capture();
  base::Status launch(const GpuGraph& graph);
  base::Status record(GpuEvent& event);

  void* handle() const { return handle_; }  // a cudaStream_t

 private:
  void* handle_ = nullptr;
};

}  // namespace rafter::device
