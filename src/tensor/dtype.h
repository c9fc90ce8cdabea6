// Element types as files store them, and the two 16-bit float conversions everything else is built on.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace rafter::tensor {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0
};

int dtype_bytes(DType type);
const char* dtype_name(DType type);  // "bf16"

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float round_to_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }

inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: mantissa × 2^-24
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Round to nearest, ties to even; overflow becomes infinity.
uint16_t f32_to_f16(float value);

// Loads from an address of any alignment (MLX files start tensors at odd offsets).
template <typename T>
inline T load_unaligned(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

// Element i of an array of f32, f16 or bf16 at any alignment.
inline float load_float(DType type, const void* array, int64_t i) {
  const char* bytes = static_cast<const char*>(array);
  switch (type) {
    case DType::f16:
      return f16_to_f32(load_unaligned<uint16_t>(bytes + 2 * i));
    case DType::bf16:
      return bf16_to_f32(load_unaligned<uint16_t>(bytes + 2 * i));
    default:
      return load_unaligned<float>(bytes + 4 * i);
  }
}

inline void store_float(DType type, void* array, int64_t i, float value) {
  char* bytes = static_cast<char*>(array);
  if (type == DType::f16 || type == DType::bf16) {
    const uint16_t half = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(bytes + 2 * i, &half, sizeof(half));
  } else {
    std::memcpy(bytes + 4 * i, &value, sizeof(value));
  }
}

// The nearest value that `type` (f32, f16 or bf16) can hold.
inline float round_float(DType type, float value) {
  float rounded;
  store_float(type, &rounded, 0, value);
  return load_float(type, &rounded, 0);
}

}  // namespace rafter::tensor
