// Checking matrix products: weights placed against an unreadable page, the reference's values with bounds
// derived from norms.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "kernels/cpu/tiers.h"
#include "kernels/ref/reference_kernels.h"
#include "tensor/codec.h"
#include "tensor/format_table.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {

// Bytes that end where an unreadable page begins, so their start has any alignment and a read past the end
// faults.
class FencedBytes {
 public:
  FencedBytes() = default;
  explicit FencedBytes(const std::vector<std::byte>& bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes.size() + page - 1) / page * page + page;
    map_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    RAFTER_CHECK(map_ != MAP_FAILED);
    RAFTER_CHECK(mprotect(map_ + mapped_ - page, page, PROT_NONE) == 0);
    data_ = map_ + mapped_ - page - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  FencedBytes(const FencedBytes&) = delete;
  FencedBytes& operator=(const FencedBytes&) = delete;
  ~FencedBytes() {
    if (map_ != nullptr) munmap(map_, mapped_);
  }
  const std::byte* data() const { return data_; }

 private:
  std::byte* map_ = nullptr;
  std::byte* data_ = nullptr;
  size_t mapped_ = 0;
};

// An encoded matrix behind fences; `odd` more bytes follow each part, so the parts start at odd addresses.
class FencedMatrix {
 public:
  FencedMatrix(const tensor::EncodedMatrix& matrix, size_t odd)
      : view_(matrix.view()),
        data_(shifted(matrix.data, odd)),
        scales_(shifted(matrix.scales, odd)),
        biases_(shifted(matrix.biases, odd)) {
    view_.data = data_.data();
    if (view_.scales != nullptr) view_.scales = scales_.data();
    if (view_.biases != nullptr) view_.biases = biases_.data();
  }
  // The first `rows` rows.
  tensor::MatrixView view(int64_t rows) const {
    tensor::MatrixView v = view_;
    v.rows = rows;
    return v;
  }

 private:
  static std::vector<std::byte> shifted(std::vector<std::byte> bytes, size_t odd) {
    bytes.resize(bytes.size() + odd, std::byte{0xFF});
    return bytes;
  }
  tensor::MatrixView view_;
  FencedBytes data_, scales_, biases_;
};

// Random weights with a different mean and size per row, so that no row or group stands for another.
inline tensor::EncodedMatrix random_matrix(const tensor::NumberFormat& format, int64_t rows, int64_t columns,
                                           uint32_t seed) {
  std::vector<float> values = random_values(static_cast<size_t>(rows * columns), seed);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t group = i / 32;
    values[i] = (values[i] + 0.2f) * (0.5f + 0.13f * static_cast<float>(group * 7 % 11));
  }
  return encode_matrix(format, rows, columns, values);
}

// The reference's product of the first `rows` rows of x, and bounds on a kernel's error, one per row.
struct ExpectedProduct {
  std::vector<float> values;   // [rows, N]
  std::vector<double> bounds;  // [rows]
};

// What the parts of a grouped sum (codes without their bias, biases) add up to in norm: their difference may
// be much smaller than either.
inline double parts_norm(const tensor::MatrixView& weight, int64_t n) {
  std::vector<float> row(weight.columns);
  tensor::decode_row(weight, n, row);
  double norm = l2_norm(row);
  const std::vector<std::byte> zeros(static_cast<size_t>(weight.format.row_bytes(weight.columns) +
                                                         weight.format.scale_row_bytes(weight.columns)));
  if (weight.format.kind == tensor::FormatKind::affine) {
    const tensor::MatrixView biases{weight.format,     1, weight.columns, zeros.data(), zeros.data(),
                                    weight.bias_row(n)};
    tensor::decode_row(biases, 0, row);
    norm += 2 * l2_norm(row);
  } else if (weight.format.kind == tensor::FormatKind::q4_1) {
    std::vector<std::byte> blocks(weight.row(n), weight.row(n) + weight.format.row_bytes(weight.columns));
    for (size_t block = 0; block < blocks.size(); block += 20) blocks[block] = blocks[block + 1] = {};
    tensor::decode_row({weight.format, 1, weight.columns, blocks.data(), nullptr, nullptr}, 0, row);
    norm += 2 * l2_norm(row);
  }
  return norm;
}

inline ExpectedProduct expect_product(const tensor::MatrixView& weight, int32_t rows,
                                      const std::vector<float>& x, MatmulPrecision precision,
                                      const float* bias = nullptr) {
  ExpectedProduct expected;
  expected.values.resize(static_cast<size_t>(rows * weight.rows));
  MatmulArgs args;
  args.rows = &rows;
  args.columns = weight.columns;
  args.precision = precision;
  args.x = x.data();
  args.segment_count = 1;
  args.segments[0] = {weight, bias, expected.values.data()};
  TestTeam one(1);
  one.run(reference_kernels().matmul, args);

  double weight_norm = 0;
  for (int64_t n = 0; n < weight.rows; ++n) weight_norm = std::max(weight_norm, parts_norm(weight, n));
  for (int32_t r = 0; r < rows; ++r) {
    const auto row = std::span(x).subspan(static_cast<size_t>(r * weight.columns), weight.columns);
    double largest = 0;
    for (float value : row) largest = std::max(largest, std::abs(double{value}));
    double bound = rounding_bound(weight_norm * l2_norm(row), static_cast<double>(weight.columns));
    // An input may err by 2^-16 of the largest one around it, or with fp32_inputs by 2^-17 of itself: 4
    // standard deviations of a sum of uniform errors.
    bound += 4 / std::sqrt(3.0) * weight_norm * largest *
             (precision == MatmulPrecision::bf16_inputs ? 0x1p-16 : 0x1p-17);
    expected.bounds.push_back(bound);
  }
  return expected;
}

// One plain product with a team; the outputs [rows, N].
inline std::vector<float> run_product(const KernelTable& table, TestTeam& team,
                                      const tensor::MatrixView& weight, int32_t rows, const float* x,
                                      MatmulPrecision precision, const float* bias = nullptr) {
  GuardedBuffer<float> out(static_cast<size_t>(rows * weight.rows));
  MatmulArgs args;
  args.rows = &rows;
  args.columns = weight.columns;
  args.precision = precision;
  args.x = x;
  args.segment_count = 1;
  args.segments[0] = {weight, bias, out.data()};
  team.set_scratch(table.matmul_scratch(args, rows));
  team.run(table.matmul, args);
  RAFTER_CHECK(out.damage().empty() && team.damage().empty(), "{} {}", out.damage(), team.damage());
  return {out.data(), out.data() + out.size()};
}

// The row and matmul kernels of one tier.
inline KernelTable tier_kernels(base::CpuTier tier) {
  KernelTable table;
  switch (tier) {
#if defined(__x86_64__)
    case base::CpuTier::avx512:
      add_row_kernels_avx512(table);
      add_matmul_kernels_avx512(table);
      return table;
    case base::CpuTier::avx2:
      add_row_kernels_avx2(table);
      add_matmul_kernels_avx2(table);
      return table;
#endif
    default:
      add_row_kernels_portable(table);
      add_matmul_kernels_portable(table);
      return table;
  }
}

inline std::vector<tensor::NumberFormat> all_matmul_formats() {
  using tensor::DType;
  using tensor::NumberFormat;
  std::vector<NumberFormat> formats;
  for (DType type : {DType::f32, DType::f16, DType::bf16}) formats.push_back(NumberFormat::plain(type));
  for (const tensor::FormatTraits& traits : tensor::all_format_traits()) {
    if (traits.block_columns > 1) formats.push_back(NumberFormat::block(traits.kind));
    if (traits.block_columns == 0 && traits.kind != tensor::FormatKind::affine)
      formats.push_back(NumberFormat::floating(traits.kind));
  }
  for (int bits : {4, 8}) {
    for (int group : {32, 64, 128}) formats.push_back(NumberFormat::affine(bits, group, DType::bf16));
    formats.push_back(NumberFormat::affine(bits, 64, DType::f16));
    formats.push_back(NumberFormat::affine(bits, 32, DType::f32));
  }
  formats.push_back(NumberFormat::affine(2, 64, DType::bf16));
  formats.push_back(NumberFormat::affine(3, 32, DType::f16));
  formats.push_back(NumberFormat::affine(5, 64, DType::bf16));
  formats.push_back(NumberFormat::affine(6, 128, DType::f32));
  return formats;
}

}  // namespace rafter::kernels::testing
