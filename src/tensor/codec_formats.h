// One decoder and one encoder per format family; tensor/codec.cpp chooses among them. All work on one row
// whose length is a multiple of the format's block, at addresses of any alignment.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/number_format.h"

namespace rafter::tensor::codec {

// The three arrays of one affine row; `Byte` is std::byte or const std::byte.
template <typename Byte>
struct AffineRow {
  Byte* codes;
  Byte* scales;
  Byte* biases;
};

void decode_plain(DType type, const std::byte* row, std::span<float> out);
void encode_plain(DType type, std::span<const float> values, std::byte* row);

void decode_affine(NumberFormat format, AffineRow<const std::byte> row, std::span<float> out);
void encode_affine(NumberFormat format, std::span<const float> values, AffineRow<std::byte> row);

void decode_q4_0(const std::byte* row, std::span<float> out);
void encode_q4_0(std::span<const float> values, std::byte* row);

void decode_q4_1(const std::byte* row, std::span<float> out);
void encode_q4_1(std::span<const float> values, std::byte* row);

void decode_q8_0(const std::byte* row, std::span<float> out);
void encode_q8_0(std::span<const float> values, std::byte* row);

void decode_q6_k(const std::byte* row, std::span<float> out);
void encode_q6_k(std::span<const float> values, std::byte* row);

// A computed code as an integer in [low, high]; NaN becomes low.
inline int clamp_code(double code, int low, int high) {
  if (!(code > low)) return low;
  return code >= high ? high : static_cast<int>(code);
}

}  // namespace rafter::tensor::codec
