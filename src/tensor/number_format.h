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
  mxfp4,   // MLX: e2m1 codes in the same bitstream, an e8m0 scale per 32 columns
  mxfp8,   // MLX: e4m3 codes, an e8m0 scale per 32 columns
  nvfp4,   // MLX: e2m1 codes, an e4m3 scale per 16 columns
  q4_0,    // GGUF blocks: tensor/blocks.h says what each holds
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4_block,  // GGUF's MXFP4: the scale lies before its codes, whose order is another
};

struct NumberFormat {
  FormatKind kind = FormatKind::f32;
  uint8_t bits = 0;                // MLX's kinds: of a code; affine: 2, 3, 4, 5, 6 or 8
  uint16_t group = 0;              // MLX's kinds: columns that share a scale; affine: 32, 64 or 128
  DType scale_type = DType::bf16;  // affine: type of scales and biases: bf16, f16 or f32

  bool operator==(const NumberFormat&) const = default;

  static NumberFormat plain(DType type);  // f32, f16 or bf16
  static NumberFormat affine(int bits, int group, DType scale_type);
  static NumberFormat floating(FormatKind kind);  // mxfp4, mxfp8 or nvfp4
  static NumberFormat block(FormatKind kind) { return {kind, 0, 0, DType::f16}; }

  // "bf16", "q4g64" (affine), "q4_0"
  std::string name() const;

  // Columns that share one block: a row's length must be a multiple of it (1 for plain formats).
  int64_t block_columns() const;

  // Bytes that one row of `columns` takes in the `data` array (MLX's kinds: codes only).
  int64_t row_bytes(int64_t columns) const;

  // Bytes of one row of the scales that MLX's kinds keep in an array of their own; 0 for every other format.
  int64_t scale_row_bytes(int64_t columns) const;
  // The same of the biases; affine only.
  int64_t bias_row_bytes(int64_t columns) const;

  // All bytes of a rows × columns matrix: data, scales and biases.
  int64_t matrix_bytes(int64_t rows, int64_t columns) const;
};

}  // namespace rafter::tensor
