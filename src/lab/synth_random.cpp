#include "lab/synth_random.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/k_scales.h"

namespace rafter::lab {
namespace {

using tensor::DType;
using tensor::FormatKind;

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Word i of the sequence that `key` names.
uint64_t word(uint64_t key, uint64_t i) { return mix(key + (i + 1) * kStep); }

// The key of one row's own sequence.
uint64_t row_key(uint64_t key, int64_t row) { return mix(key ^ mix(static_cast<uint64_t>(row) + 1)); }

void fill_bytes(uint64_t key, std::byte* out, size_t size) {
  size_t i = 0;
  uint64_t counter = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t value = word(key, counter++);
    std::memcpy(out + i, &value, 8);
  }
  const uint64_t value = word(key, counter);
  std::memcpy(out + i, &value, size - i);
}

// Factors of the scales: 97/128, 99/128 … 159/128 around 1, of either sign. What is drawn is an index.
constexpr size_t kScales = 64;
double scale_factor(size_t index) {
  const double magnitude = static_cast<double>(97 + 2 * (index / 2)) / 128;
  return index % 2 == 0 ? magnitude : -magnitude;
}

double mean_square_of_factors() {
  double sum = 0;
  for (size_t i = 0; i < kScales; ++i) sum += scale_factor(i) * scale_factor(i);
  return sum / kScales;
}

// 4096 values of unit variance, normal but for the tails: sums of twelve uniform integers, each with its
// negative, so that the mean is exactly 0. Integers and exact steps only: the same on every machine.
constexpr size_t kNormals = 4096;
std::array<double, kNormals> make_normals() {
  std::array<double, kNormals> values{};
  double squares = 0;
  for (size_t i = 0; i < kNormals; i += 2) {
    int64_t sum = -6 * 0xFFFF;
    for (size_t n = 0; n < 3; ++n) {
      for (uint64_t rest = word(0, 3 * i + n), k = 0; k < 4; ++k, rest >>= 16)
        sum += static_cast<int64_t>(rest & 0xFFFF);
    }
    values[i] = static_cast<double>(sum);
    values[i + 1] = -values[i];
    squares += 2 * values[i] * values[i];
  }
  const double deviation = std::sqrt(squares / kNormals);
  for (double& value : values) value /= deviation;
  return values;
}

const std::array<double, kNormals>& normals() {
  static const std::array<double, kNormals> values = make_normals();
  return values;
}

// The integer scales inside K blocks: uniform over [kLowest, kLowest + kCount).
struct WholeScales {
  int lowest, count;

  int draw(std::byte random) const { return lowest + std::to_integer<int>(random) % count; }
  double mean_square() const {
    double sum = 0;
    for (int scale = lowest; scale < lowest + count; ++scale) sum += static_cast<double>(scale * scale);
    return sum / count;
  }
};
constexpr WholeScales kSixBitScales{48, 16}, kEightBitScales{96, 32};

bool has_k_minima(FormatKind kind) { return kind == FormatKind::q4_k || kind == FormatKind::q5_k; }

// The code that stands for zero where minima are the scales times it.
float middle_code(const tensor::NumberFormat& format) {
  if (format.kind == FormatKind::q4_k) return 7.5f;
  if (format.kind == FormatKind::q5_k) return 15.5f;
  return static_cast<float>((1 << format.bits) - 1) / 2;
}

// The mean square of a uniform code about the value that decodes to zero, times that of the whole scales.
double mean_square_of_codes(const tensor::NumberFormat& format) {
  switch (format.kind) {
    case FormatKind::affine: {
      const double codes = static_cast<double>(1 << format.bits);
      return (codes * codes - 1) / 12;
    }
    case FormatKind::q4_0:
      return (16.0 * 16 - 1) / 12 + 0.25;  // −8 … 7
    case FormatKind::q8_0:
      return (256.0 * 256 - 1) / 12 + 0.25;  // −128 … 127
    case FormatKind::q4_k:
      return (16.0 * 16 - 1) / 12 * kSixBitScales.mean_square();
    case FormatKind::q5_k:
      return (32.0 * 32 - 1) / 12 * kSixBitScales.mean_square();
    case FormatKind::q6_k:
      return ((64.0 * 64 - 1) / 12 + 0.25) * kEightBitScales.mean_square();  // −32 … 31
    default:
      RAFTER_CHECK(false, "no random weights in format {}", format.name());
  }
}

bool is_plain(const tensor::NumberFormat& format) {
  return format.kind == FormatKind::bf16 || format.kind == FormatKind::f32;
}

void put(std::byte* at, uint16_t value) { std::memcpy(at, &value, sizeof(value)); }

// Quantizers never give −128: kernels may rely on it.
void avoid_lowest_code(std::byte* codes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (codes[i] == std::byte{0x80}) codes[i] = std::byte{0x81};
  }
}

}  // namespace

// Of a block of random bytes, those that are no codes.
template <class Block>
void put_k_scales(std::byte* at, uint16_t d, uint16_t dmin) {
  Block block;
  std::memcpy(&block, at, sizeof(block));
  block.d = d;
  block.dmin = dmin;
  uint8_t packed[12] = {};
  for (size_t j = 0; j < 8; ++j) {
    const int scale = kSixBitScales.draw(static_cast<std::byte>(block.scales[j]));
    tensor::codec::write_k_scale({scale, scale}, packed, j);
  }
  std::memcpy(block.scales, packed, sizeof(packed));
  std::memcpy(at, &block, sizeof(block));
}

void put_q6_k_scales(std::byte* at, uint16_t d) {
  tensor::Q6_KBlock block;
  std::memcpy(&block, at, sizeof(block));
  block.d = d;
  for (int8_t& scale : block.scales) {
    scale = static_cast<int8_t>(kEightBitScales.draw(static_cast<std::byte>(scale)));
  }
  std::memcpy(at, &block, sizeof(block));
}

// What the drawn indices stand for in this matrix, as stored bits.
struct RandomMatrix::Tables {
  std::array<uint16_t, kNormals> values;  // bf16
  std::array<uint16_t, kScales> scales;   // bf16 (affine) or f16
  std::array<uint16_t, kScales> biases;   // affine; q4_k and q5_k: dmin
};

RandomMatrix::RandomMatrix(tensor::NumberFormat format, int64_t columns, uint64_t key)
    : format_(format), columns_(columns), key_(key) {
  const double deviation = 1 / std::sqrt(static_cast<double>(columns));
  auto tables = std::make_unique<Tables>();
  if (is_plain(format)) {
    for (size_t i = 0; i < kNormals; ++i)
      tables->values[i] = tensor::f32_to_bf16(static_cast<float>(normals()[i] * deviation));
  } else {
    const bool affine = format.kind == FormatKind::affine;
    RAFTER_CHECK(!affine || (format.scale_type == DType::bf16 && 8 % format.bits == 0),
                 "no random weights in format {}", format.name());
    const double mean_scale = deviation / std::sqrt(mean_square_of_codes(format) * mean_square_of_factors());
    for (size_t i = 0; i < kScales; ++i) {
      const auto scale = static_cast<float>(mean_scale * scale_factor(i));
      tables->scales[i] = affine ? tensor::f32_to_bf16(scale) : tensor::f32_to_f16(scale);
      const float middle = middle_code(format);
      if (affine) tables->biases[i] = tensor::f32_to_bf16(-tensor::round_to_bf16(scale) * middle);
      if (has_k_minima(format.kind)) {
        tables->biases[i] = tensor::f32_to_f16(tensor::f16_to_f32(tables->scales[i]) * middle);
      }
    }
  }
  tables_ = std::move(tables);
}

RandomMatrix::~RandomMatrix() = default;

void RandomMatrix::fill(int64_t first_row, std::span<std::byte> data, std::span<std::byte> scales,
                        std::span<std::byte> biases) const {
  const auto row_bytes = static_cast<size_t>(format_.row_bytes(columns_));
  const auto scale_bytes = static_cast<size_t>(format_.scale_row_bytes(columns_));
  const size_t rows = data.size() / row_bytes;
  RAFTER_CHECK(data.size() == rows * row_bytes && scales.size() == rows * scale_bytes &&
                   biases.size() == scales.size(),
               "{} bytes of data, {} of scales, {} of biases", data.size(), scales.size(), biases.size());
  for (size_t r = 0; r < rows; ++r) {
    fill_row(first_row + static_cast<int64_t>(r), data.data() + r * row_bytes,
             scales.data() + r * scale_bytes, biases.data() + r * scale_bytes);
  }
}

void RandomMatrix::fill_row(int64_t row, std::byte* data, std::byte* scales, std::byte* biases) const {
  const uint64_t key = row_key(key_, row);
  const auto columns = static_cast<size_t>(columns_);
  if (is_plain(format_)) {
    const bool wide = format_.kind == FormatKind::f32;  // a bf16's upper half of it
    if (wide) std::memset(data, 0, columns * sizeof(float));
    for (size_t i = 0; i < columns; i += 4) {
      uint64_t random = word(key, i / 4);
      for (size_t n = i; n < std::min(i + 4, columns); ++n, random >>= 16)
        put(data + (wide ? 4 * n + 2 : 2 * n), tables_->values[random % kNormals]);
    }
    return;
  }
  fill_bytes(key, data, static_cast<size_t>(format_.row_bytes(columns_)));
  if (format_.kind == FormatKind::affine) {
    uint64_t random = 0;
    for (size_t g = 0; g < columns / format_.group; ++g, random >>= 8) {
      if (g % 8 == 0) random = word(~key, g / 8);
      put(scales + 2 * g, tables_->scales[random % kScales]);
      put(biases + 2 * g, tables_->biases[random % kScales]);
    }
    return;
  }
  // The random bytes in the place of a scale draw it.
  const auto block_bytes = static_cast<size_t>(format_.row_bytes(format_.block_columns()));
  const std::byte* end = data + format_.row_bytes(columns_);
  for (std::byte* block = data; block < end; block += block_bytes) {
    const size_t drawn = static_cast<size_t>(block[0]) % kScales;
    const uint16_t scale = tables_->scales[drawn];
    switch (format_.kind) {
      case FormatKind::q4_k:
        put_k_scales<tensor::Q4_KBlock>(block, scale, tables_->biases[drawn]);
        break;
      case FormatKind::q5_k:
        put_k_scales<tensor::Q5_KBlock>(block, scale, tables_->biases[drawn]);
        break;
      case FormatKind::q6_k:
        put_q6_k_scales(block, tables_->scales[static_cast<size_t>(block[block_bytes - 1]) % kScales]);
        break;
      default:  // blocks of 32 begin with their scale
        put(block, scale);
        if (format_.kind == FormatKind::q8_0) avoid_lowest_code(block + 2, 32);
    }
  }
}

uint64_t synth_key(uint64_t seed, std::string_view name) {
  uint64_t key = mix(seed + kStep);
  for (char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  return key;
}

void fill_random_vector(DType type, uint64_t key, std::span<std::byte> data, VectorRange range) {
  constexpr uint64_t kSteps = 64;
  const auto width = static_cast<size_t>(tensor::dtype_bytes(type));
  const float step = (range.highest - range.lowest) / kSteps;
  for (size_t i = 0; i < data.size() / width; ++i) {
    const auto steps = static_cast<float>(word(key, i) % (kSteps + 1));
    tensor::store_float(type, data.data(), static_cast<int64_t>(i), range.lowest + steps * step);
  }
}

}  // namespace rafter::lab
