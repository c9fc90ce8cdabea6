#include "cli/random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "decode/random.h"

namespace rafter::cli {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

constexpr int64_t kPortion = 1 << 20;  // bytes per call of a sink, about

class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed) {}
  uint64_t next() { return decode::mix64(state_ += 0x9e3779b97f4a7c15ull); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  void fill(std::span<std::byte> bytes) {
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    const uint64_t word = next();
    std::memcpy(bytes.data() + i, &word, bytes.size() - i);
  }

 private:
  uint64_t state_;
};

void put_u16(std::byte* at, uint16_t value) { std::memcpy(at, &value, 2); }

// A scale between 0.75 and 1.25 of `middle`, of either sign when `signed_too`.
float random_scale(Bits& bits, double middle, bool signed_too) {
  const uint64_t word = bits.next();
  const double factor = 0.75 + 0.5 * static_cast<double>(word >> 32) * 0x1p-32;
  return static_cast<float>(signed_too && (word & 1) != 0 ? -middle * factor : middle * factor);
}

// The standard deviation of a uniform integer of n values.
double uniform_deviation(double n) { return std::sqrt((n * n - 1) / 12); }

// 4096 normal values, each with its negative so that their mean is 0; drawing from the table by 12 random
// bits keeps their distribution.
class NormalTable {
 public:
  NormalTable(Bits& bits, double deviation) : values_(kSize) {
    for (size_t i = 0; i < kSize; i += 2) {
      const double radius = deviation * std::sqrt(-2 * std::log(1 - bits.unit()));  // Box and Muller
      values_[i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * bits.unit()));
      values_[i + 1] = -values_[i];
    }
  }
  float at(uint64_t random) const { return values_[random % kSize]; }

 private:
  static constexpr size_t kSize = 4096;
  std::vector<float> values_;
};

// Fills whole rows, one function per kind of format.
void fill_bf16(Bits& bits, const NormalTable& normals, std::span<std::byte> rows) {
  for (size_t i = 0; i + 8 <= rows.size(); i += 8) {
    const uint64_t word = bits.next();
    for (size_t n = 0; n < 4; ++n)
      put_u16(&rows[i + 2 * n], tensor::f32_to_bf16(normals.at(word >> (16 * n))));
  }
}

// Every block starts with an f16 scale and goes on with codes: q4_0 (18 bytes) and q8_0 (34 bytes).
void fill_scaled_blocks(Bits& bits, size_t block_bytes, double scale, std::span<std::byte> rows) {
  bits.fill(rows);
  for (size_t i = 0; i < rows.size(); i += block_bytes) {
    put_u16(&rows[i], tensor::f32_to_f16(random_scale(bits, scale, true)));
  }
}

// q6_k: 192 bytes of codes, 16 signed scales, an f16 scale of scales.
void fill_q6_k(Bits& bits, double deviation, std::span<std::byte> rows) {
  constexpr size_t kBlock = 210, kScales = 192, kScaleOfScales = 208;
  constexpr double kMeanScale = 48;  // of 32 … 64
  const double scale = deviation / (uniform_deviation(64) * kMeanScale);
  bits.fill(rows);
  for (size_t block = 0; block < rows.size(); block += kBlock) {
    for (size_t i = 0; i < 16; ++i) {
      const auto random = static_cast<int>(rows[block + kScales + i]);
      const int magnitude = 32 + random % 33;
      rows[block + kScales + i] = static_cast<std::byte>((random & 128) != 0 ? -magnitude : magnitude);
    }
    put_u16(&rows[block + kScaleOfScales], tensor::f32_to_f16(random_scale(bits, scale, false)));
  }
}

void fill_rows(const NumberFormat& format, double deviation, const NormalTable& normals, Bits& bits,
               std::span<std::byte> rows) {
  switch (format.kind) {
    case FormatKind::bf16:
      return fill_bf16(bits, normals, rows);
    case FormatKind::affine:
      return bits.fill(rows);
    case FormatKind::q4_0:
      return fill_scaled_blocks(bits, 18, deviation / uniform_deviation(16), rows);
    case FormatKind::q8_0:
      return fill_scaled_blocks(bits, 34, deviation / uniform_deviation(256), rows);
    case FormatKind::q6_k:
      return fill_q6_k(bits, deviation, rows);
    default:
      RAFTER_CHECK(false, "no random weights in format {}", format.name());
  }
}

// Scales and biases of `count` groups; the bias puts zero in the middle of the codes.
void fill_scales(const NumberFormat& format, double deviation, Bits& bits, std::span<std::byte> scales,
                 std::span<std::byte> biases) {
  const double codes = static_cast<double>(1 << format.bits);
  for (size_t i = 0; i < scales.size(); i += 2) {
    const float scale = random_scale(bits, deviation / uniform_deviation(codes), true);
    put_u16(&scales[i], tensor::f32_to_bf16(scale));
    put_u16(&biases[i], tensor::f32_to_bf16(static_cast<float>(-scale * (codes - 1) / 2)));
  }
}

}  // namespace

uint64_t tensor_seed(uint64_t seed, std::string_view name) {
  uint64_t hash = decode::mix64(seed + 1);
  for (char c : name) hash = decode::mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

base::Status write_random_matrix(const NumberFormat& format, int64_t rows, int64_t columns, double deviation,
                                 uint64_t seed, const MatrixSinks& sinks) {
  Bits bits(seed);
  const NormalTable normals(bits, deviation);
  const int64_t row_bytes = format.row_bytes(columns), scale_bytes = format.scale_row_bytes(columns);
  const int64_t portion_rows = std::max<int64_t>(1, kPortion / row_bytes);
  std::vector<std::byte> data, scales, biases;
  for (int64_t row = 0; row < rows; row += portion_rows) {
    const int64_t count = std::min(portion_rows, rows - row);
    data.resize(static_cast<size_t>(count * row_bytes));
    fill_rows(format, deviation, normals, bits, data);
    RAFTER_TRY(sinks.data(data));
    if (scale_bytes == 0) continue;
    scales.resize(static_cast<size_t>(count * scale_bytes));
    biases.resize(scales.size());
    fill_scales(format, deviation, bits, scales, biases);
    RAFTER_TRY(sinks.scales(scales));
    RAFTER_TRY(sinks.biases(biases));
  }
  return {};
}

base::Status write_random_norm(DType type, int64_t size, uint64_t seed, const ByteSink& sink) {
  Bits bits(seed);
  const auto width = static_cast<size_t>(tensor::dtype_bytes(type));
  std::vector<std::byte> data(static_cast<size_t>(size) * width);
  for (size_t i = 0; i < data.size(); i += width) {
    const float value = static_cast<float>(0.5 + bits.unit());
    if (type == DType::bf16) {
      put_u16(&data[i], tensor::f32_to_bf16(value));
    } else {
      std::memcpy(&data[i], &value, sizeof(value));
    }
  }
  return sink(data);
}

}  // namespace rafter::cli
