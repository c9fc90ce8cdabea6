#include "device/gpu.h"

#include <utility>

namespace rafter::device {
namespace {

base::Error refused() {
  return {base::ErrorCode::unsupported, "this build has no CUDA", "--device", "use --device cpu"};
}

}  // namespace

bool built_with_cuda() { return false; }

base::Result<GpuInfo> use_gpu(int) { return refused(); }

base::Result<GpuMemory> GpuMemory::allocate(size_t) { return refused(); }
GpuMemory::GpuMemory(GpuMemory&& other) noexcept { *this = std::move(other); }
GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(data_, other.data_), std::swap(size_, other.size_);
  return *this;
}
GpuMemory::~GpuMemory() = default;

base::Result<PinnedMemory> PinnedMemory::allocate(size_t) { return refused(); }
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}
PinnedMemory::~PinnedMemory() = default;

GpuGraph::GpuGraph(GpuGraph&& other) noexcept { *this = std::move(other); }
GpuGraph& GpuGraph::operator=(GpuGraph&& other) noexcept {
  std::swap(executable_, other.executable_);
  return *this;
}
GpuGraph::~GpuGraph() = default;

base::Result<GpuEvent> GpuEvent::create() { return refused(); }
GpuEvent::GpuEvent(GpuEvent&& other) noexcept { *this = std::move(other); }
GpuEvent& GpuEvent::operator=(GpuEvent&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
GpuEvent::~GpuEvent() = default;
base::Status GpuEvent::wait_blocking() { return refused(); }

base::Result<GpuStream> GpuStream::create() { return refused(); }
GpuStream::GpuStream(GpuStream&& other) noexcept { *this = std::move(other); }
GpuStream& GpuStream::operator=(GpuStream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
GpuStream::~GpuStream() = default;
base::Status GpuStream::copy_to_device(void*, const void*, size_t) { return refused(); }
base::Status GpuStream::copy_to_host(void*, const void*, size_t) { return refused(); }
base::Status GpuStream::copy_on_device(void*, const void*, size_t) { return refused(); }
base::Status GpuStream::fill_zero(void*, size_t) { return refused(); }
base::Status GpuStream::synchronize_blocking() { return refused(); }
base::Status GpuStream::check_launches(const char*) { return refused(); }
base::Status GpuStream::begin_capture() { return refused(); }
base::Result<GpuGraph> GpuStream::end_capture() { return refused(); }
base::Status GpuStream::launch(const GpuGraph&) { return refused(); }
base::Status GpuStream::record(GpuEvent&) { return refused(); }

}  // namespace rafter::device
