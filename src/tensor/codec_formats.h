// One decoder and one encoder per format; tensor/format_table.cpp lists them. All work on one row
// whose length is a multiple of the format's block, at addresses of any alignment.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/number_format.h"

namespace rafter::tensor::codec {

// The arrays of one row: its codes (or blocks), and the scales and biases that MLX's kinds keep apart. `Byte`
// is std::byte or const std::byte.
template <typename Byte>
struct StoredRow {
  Byte* data;
  Byte* scales;
  Byte* biases;
};

void decode_plain(DType type, const std::byte* row, std::span<float> out);
void encode_plain(DType type, std::span<const float> values, std::byte* row);

void decode_affine(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out);
void encode_affine(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row);

void decode_mxfp4(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out);
void encode_mxfp4(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row);

void decode_mxfp8(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out);
void encode_mxfp8(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row);

void decode_nvfp4(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out);
void encode_nvfp4(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row);

void decode_q4_0(const std::byte* row, std::span<float> out);
void encode_q4_0(std::span<const float> values, std::byte* row);

void decode_q4_1(const std::byte* row, std::span<float> out);
void encode_q4_1(std::span<const float> values, std::byte* row);

void decode_q5_0(const std::byte* row, std::span<float> out);
void encode_q5_0(std::span<const float> values, std::byte* row);

void decode_q5_1(const std::byte* row, std::span<float> out);
void encode_q5_1(std::span<const float> values, std::byte* row);

void decode_q8_0(const std::byte* row, std::span<float> out);
void encode_q8_0(std::span<const float> values, std::byte* row);

void decode_q2_k(const std::byte* row, std::span<float> out);
void encode_q2_k(std::span<const float> values, std::byte* row);

void decode_q3_k(const std::byte* row, std::span<float> out);
void encode_q3_k(std::span<const float> values, std::byte* row);

void decode_q4_k(const std::byte* row, std::span<float> out);
void encode_q4_k(std::span<const float> values, std::byte* row);

void decode_q5_k(const std::byte* row, std::span<float> out);
void encode_q5_k(std::span<const float> values, std::byte* row);

void decode_q6_k(const std::byte* row, std::span<float> out);
void encode_q6_k(std::span<const float> values, std::byte* row);

void decode_iq4_nl(const std::byte* row, std::span<float> out);
void encode_iq4_nl(std::span<const float> values, std::byte* row);

void decode_iq4_xs(const std::byte* row, std::span<float> out);
void encode_iq4_xs(std::span<const float> values, std::byte* row);

void decode_mxfp4_block(const std::byte* row, std::span<float> out);
void encode_mxfp4_block(std::span<const float> values, std::byte* row);

// A computed code as an integer in [low, high]; NaN becomes low.
inline int clamp_code(double code, int low, int high) {
  if (!(code > low)) return low;
  return code >= high ? high : static_cast<int>(code);
}

}  // namespace rafter::tensor::codec
