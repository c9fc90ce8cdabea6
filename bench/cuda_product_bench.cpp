// Matrix products on a GPU, as they run inside a captured step: a chain of launches over different weights,
// each waiting for the one before. One JSON line per shape and number of rows.
//
//   cuda_product_bench [ROWS …]     (1 16 2048)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "device/gpu.h"
#include "kernels/cuda/cuda_kernels.h"

namespace {

using namespace rafter;

template <typename T>
T checked(base::Result<T> result) {
  if (!result.ok()) std::printf("%s\n", result.error().message().c_str()), std::exit(1);
  return std::move(result).value();
}
void checked(const base::Status& status) {
  if (!status.ok()) std::printf("%s\n", status.error().message().c_str()), std::exit(1);
}

struct Shape {
  const char* name;
  int64_t outputs, columns;
  bool gated;  // outputs is then that of one of the two matrices
  bool is_bf16;
};
constexpr Shape kShapes[] = {
    {"cpm5 qkv q4", 2560, 1536, false, false},    {"cpm5 o q4", 1536, 2048, false, false},
    {"cpm5 gate-up q4", 4608, 1536, true, false}, {"cpm5 down q4", 1536, 4608, false, false},
    {"cpm5 head q4", 130560, 1536, false, false}, {"8b qkv q4", 6144, 4096, false, false},
    {"8b o q4", 4096, 4096, false, false},        {"8b gate-up q4", 14336, 4096, true, false},
    {"8b down q4", 4096, 14336, false, false},    {"8b head q4", 128256, 4096, false, false},
    {"1b gate-up bf16", 8192, 2048, true, true},  {"1b down bf16", 2048, 8192, false, true},
    {"1b head bf16", 128256, 2048, false, true},
};

void run(const Shape& shape, int32_t rows, const device::GpuInfo& gpu) {
  const kernels::CudaKernels& table = *kernels::cuda_kernels();
  device::GpuStream stream = checked(device::GpuStream::create());
  tensor::MatrixView w;
  w.format = shape.is_bf16 ? tensor::NumberFormat::plain(tensor::DType::bf16)
                           : tensor::NumberFormat::affine(4, 64, tensor::DType::bf16);
  w.rows = shape.outputs, w.columns = shape.columns;
  const size_t bytes = table.relaid_bytes(w) * (shape.gated ? 2 : 1);
  const size_t copies = std::clamp<size_t>((size_t{400} << 20) / bytes, 2, 96);
  device::GpuMemory weights = checked(device::GpuMemory::allocate(bytes * copies));
  std::mt19937 random(1);
  std::vector<uint32_t> noise(bytes / 4);
  for (uint32_t& word : noise) word = random() & 0xBFFFBFFF;  // as bf16: no infinities
  for (size_t i = 0; i < copies; ++i)
    checked(stream.copy_to_device(weights.data() + i * bytes, noise.data(), bytes));
  const size_t width = static_cast<size_t>(std::max(shape.outputs, shape.columns));
  device::GpuMemory values = checked(device::GpuMemory::allocate(width * static_cast<size_t>(rows) * 8));
  device::GpuMemory norm = checked(device::GpuMemory::allocate(static_cast<size_t>(shape.columns) * 4));
  device::GpuMemory count = checked(device::GpuMemory::allocate(256));
  checked(stream.fill_zero(values.data(), values.size()));
  checked(stream.fill_zero(norm.data(), norm.size()));
  checked(stream.copy_to_device(count.data(), &rows, 4));
  kernels::MatmulArgs a;
  a.rows = reinterpret_cast<const int32_t*>(count.data());
  a.columns = shape.columns;
  a.segment_count = shape.gated ? 2 : 1;
  if (shape.gated) a.epilogue = kernels::MatmulEpilogue::swiglu;
  if (shape.outputs > shape.columns) a.norm_weight = reinterpret_cast<const float*>(norm.data());
  for (int s = 0; s < a.segment_count; ++s) a.segments[s].weight = w;
  auto* const x = reinterpret_cast<float*>(values.data());
  kernels::CudaLaunch launch;
  launch.stream = stream.handle(), launch.capacity = rows, launch.multiprocessors = gpu.multiprocessors;
  launch.shared_bytes = gpu.shared_bytes;
  device::GpuMemory scratch = checked(device::GpuMemory::allocate(table.matmul_scratch(a, launch)));
  checked(stream.fill_zero(scratch.data(), scratch.size()));
  launch.scratch = scratch.data();
  device::GpuMemory counters =
      checked(device::GpuMemory::allocate(kernels::kLaunchCounters * sizeof(int32_t)));
  checked(stream.fill_zero(counters.data(), counters.size()));
  launch.counters = reinterpret_cast<int32_t*>(counters.data());
  checked(stream.synchronize_blocking());
  checked(stream.begin_capture());
  for (size_t i = 0; i < copies; ++i) {
    for (int s = 0; s < a.segment_count; ++s) {
      a.segments[s].weight.data = weights.data() + i * bytes + static_cast<size_t>(s) * bytes / 2;
    }
    a.x = x + (i % 2) * width * static_cast<size_t>(rows);
    a.segments[0].out = x + (1 - i % 2) * width * static_cast<size_t>(rows);
    table.matmul(a, launch);
  }
  device::GpuGraph graph = checked(stream.end_capture());
  checked(stream.check_launches("capture"));
  std::vector<double> times;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const int repeats = rows > 64 ? 1 : 4;
    for (int r = 0; r < repeats; ++r) checked(stream.launch(graph));
    checked(stream.synchronize_blocking());
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
        static_cast<double>(copies) / repeats);
  }
  std::sort(times.begin(), times.end());
  const double us = times[2];
  std::printf("{\"product\": \"%s\", \"rows\": %d, \"us\": %.2f, \"gb_s\": %.0f, \"tflop_s\": %.1f}\n",
              shape.name, rows, us, static_cast<double>(bytes) / us / 1e3,
              2e-6 * static_cast<double>(rows) * static_cast<double>(shape.outputs * shape.columns) *
                  (shape.gated ? 2 : 1) / us);
}

}  // namespace

int main(int argument_count, char** arguments) {
  const device::GpuInfo gpu = checked(device::use_gpu(0));
  std::vector<int32_t> row_counts;
  for (int i = 1; i < argument_count; ++i) row_counts.push_back(std::atoi(arguments[i]));
  if (row_counts.empty()) row_counts = {1, 16, 2048};
  for (const int32_t rows : row_counts) {
    for (const Shape& shape : kShapes) {
      if (rows <= 64 || shape.outputs < 100000) run(shape, rows, gpu);
    }
  }
  return 0;
}
