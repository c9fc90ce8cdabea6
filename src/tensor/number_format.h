// How the numbers of a weight matrix are stored. A format is data: its name, its block, its bytes. What a
// block means is defined by the scalar codec in tensor/codec.h; kernels read the same bytes faster.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace rafter::tensor {

enum class FormatKind : uint8_t {
  f32,
  f16,
  bf16,
  affine,  // MLX: codes of `bits` bits in an LSB-first bitstream, one (scale, bias) pair per `group` columns
  q4_0,    // GGUF block of 32: f16 d, 16 bytes of nibbles; d·(q − 8)
  q4_1,    // GGUF block of 32: f16 d, f16 m, 16 bytes of nibbles; d·q + m
  q8_0,    // GGUF block of 32: f16 d, 32 signed bytes; d·q
  q6_k,    // GGUF block of 256: 210 bytes; d·scale·(q − 32)
};

struct NumberFormat {
  FormatKind kind = FormatKind::f32;
  uint8_t bits = 0;                // affine only: 2, 3, 4, 5, 6 or 8
  uint16_t group = 0;              // affine only: 32, 64 or 128
  DType scale_type = DType::bf16;  // affine only: type of scales and biases: bf16, f16 or f32

  bool operator==(const NumberFormat&) const = default;

  static NumberFormat plain(DType type);  // f32, f16 or bf16
  static NumberFormat affine(int bits, int group, DType scale_type);
  static NumberFormat block(FormatKind kind) { return {kind, 0, 0, DType::f16}; }

  // "bf16", "q4g64" (affine), "q4_0"
  std::string name() const;

  // Columns that share one block: a row's length must be a multiple of it (1 for plain formats).
  int64_t block_columns() const;

  // Bytes that one row of `columns` takes in the `data` array (affine: codes only).
  int64_t row_bytes(int64_t columns) const;

  // Affine: bytes of one row of scales (and as many of biases); 0 for every other format.
  int64_t scale_row_bytes(int64_t columns) const;

  // All bytes of a rows × columns matrix: data, scales and biases.
  int64_t matrix_bytes(int64_t rows, int64_t columns) const;
};

}  // namespace rafter::tensor
