#include "device/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <cuda_runtime_api.h>

namespace rafter::device {
namespace {

base::Status checked(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  const bool memory = code == cudaErrorMemoryAllocation;
  return base::Error{
      memory ? base::ErrorCode::out_of_memory : base::ErrorCode::io,
      fmt::format("{}: {}", call, cudaGetErrorString(code)), "GPU",
      memory ? "use a smaller --ctx or a smaller model" : "restart the program; the GPU may have failed"};
}

// What a block gets of an SM's memory. RAFTER_GPU_SHARED_BYTES makes it less, so that what a smaller GPU
// would run can be tested on a larger one.
int64_t shared_bytes_of(const cudaDeviceProp& properties) {
  const auto bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  const char* const most = std::getenv("RAFTER_GPU_SHARED_BYTES");
  const long long asked = most == nullptr ? 0 : std::strtoll(most, nullptr, 10);
  return asked > 0 ? std::min<int64_t>(bytes, asked) : bytes;
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }

}  // namespace

bool built_with_cuda() { return true; }

base::Result<GpuInfo> use_gpu(int index) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || index < 0 || index >= count) {
    return base::Error{base::ErrorCode::unsupported,
                       code != cudaSuccess
                           ? fmt::format("no usable GPU: {}", cudaGetErrorString(code))
                           : fmt::format("there is no GPU {}: this machine has {}", index, count),
                       "--device", "use --device cpu"};
  }
  RAFTER_TRY(checked(cudaSetDevice(index), "cudaSetDevice"));
  cudaDeviceProp properties;
  RAFTER_TRY(checked(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  size_t free_bytes = 0, total_bytes = 0;
  RAFTER_TRY(checked(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  return GpuInfo{properties.name, index,     properties.multiProcessorCount, shared_bytes_of(properties),
                 total_bytes,     free_bytes};
}

base::Result<GpuMemory> GpuMemory::allocate(size_t bytes) {
  GpuMemory memory;
  void* data = nullptr;
  RAFTER_TRY(checked(cudaMalloc(&data, bytes), fmt::format("cudaMalloc of {} bytes", bytes).c_str()));
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}
GpuMemory::GpuMemory(GpuMemory&& other) noexcept { *this = std::move(other); }
GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(data_, other.data_), std::swap(size_, other.size_);
  return *this;
}
GpuMemory::~GpuMemory() { cudaFree(data_); }

base::Result<PinnedMemory> PinnedMemory::allocate(size_t bytes) {
  PinnedMemory memory;
  void* data = nullptr;
  RAFTER_TRY(checked(cudaMallocHost(&data, bytes), "cudaMallocHost"));
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}
PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

GpuGraph::GpuGraph(GpuGraph&& other) noexcept { *this = std::move(other); }
GpuGraph& GpuGraph::operator=(GpuGraph&& other) noexcept {
  std::swap(executable_, other.executable_);
  return *this;
}
GpuGraph::~GpuGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

base::Result<GpuEvent> GpuEvent::create() {
  cudaEvent_t handle = nullptr;
  RAFTER_TRY(checked(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), "cudaEventCreate"));
  GpuEvent event;
  event.handle_ = handle;
  return event;
}
GpuEvent::GpuEvent(GpuEvent&& other) noexcept { *this = std::move(other); }
GpuEvent& GpuEvent::operator=(GpuEvent&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
GpuEvent::~GpuEvent() {
  if (handle_ != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(handle_));
}
base::Status GpuEvent::wait_blocking() {
  return checked(cudaEventSynchronize(static_cast<cudaEvent_t>(handle_)), "waiting for the GPU");
}

base::Result<GpuStream> GpuStream::create() {
  cudaStream_t handle = nullptr;
  RAFTER_TRY(checked(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreate"));
  GpuStream stream;
  stream.handle_ = handle;
  return stream;
}
GpuStream::GpuStream(GpuStream&& other) noexcept { *this = std::move(other); }
GpuStream& GpuStream::operator=(GpuStream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
GpuStream::~GpuStream() {
  if (handle_ != nullptr) cudaStreamDestroy(stream_of(handle_));
}

base::Status GpuStream::copy_to_device(void* to, const void* from, size_t bytes) {
  return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(handle_)),
                 "copy to the GPU");
}
base::Status GpuStream::copy_to_host(void* to, const void* from, size_t bytes) {
  return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(handle_)),
                 "copy from the GPU");
}
base::Status GpuStream::copy_on_device(void* to, const void* from, size_t bytes) {
  return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(handle_)),
                 "copy on the GPU");
}
base::Status GpuStream::fill_zero(void* to, size_t bytes) {
  return checked(cudaMemsetAsync(to, 0, bytes, stream_of(handle_)), "cudaMemsetAsync");
}
base::Status GpuStream::synchronize_blocking() {
  return checked(cudaStreamSynchronize(stream_of(handle_)), "waiting for the GPU");
}
base::Status GpuStream::check_launches(const char* what) { return checked(cudaGetLastError(), what); }

base::Status GpuStream::begin_capture() {
  return checked(cudaStreamBeginCapture(stream_of(handle_), cudaStreamCaptureModeThreadLocal),
                 "begin capture");
}
base::Result<GpuGraph> GpuStream::end_capture() {
  cudaGraph_t graph = nullptr;
  RAFTER_TRY(checked(cudaStreamEndCapture(stream_of(handle_), &graph), "end capture"));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  RAFTER_TRY(checked(code, "cudaGraphInstantiate"));
  GpuGraph result;
  result.executable_ = executable;
  return result;
}
base::Status GpuStream::launch(const GpuGraph& graph) {
  return checked(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.executable_), stream_of(handle_)),
                 "cudaGraphLaunch");
}

base::Status GpuStream::record(GpuEvent& event) {
  return checked(cudaEventRecord(static_cast<cudaEvent_t>(event.handle_), stream_of(handle_)),
                 "cudaEventRecord");
}

}  // namespace rafter::device
