// One layer's keys and values inside the block store, and the op that appends to them.
//
// A cache block holds kBlockPositions positions of one sequence. Per layer it is laid out
// [kv_head][position][head_dim], keys and values apart. Position p of a sequence is slot p % 64 of block
// block_table(…)[p / 64]. Layers that keep different positions (all of them, or a window's) are of different
// kinds, each with blocks and tables of its own.
//
// Elements are fp32, bf16 or affine codes. With codes, each position's head_dim values are cut into groups of
// group_size, and a group is quantised by itself when its row is appended; nothing is ever quantised later or
// again. Keys are stored relative to those before them in the block (key_reference_rows()). A kv head's part
// of a block is then
//   codes           [position][head_dim · bits / 8 bytes]
//   scales, biases  [group][scale | bias][position], bf16
// 8 bits: byte d is the code of element d. 4 bits: each 4 bytes hold 8 elements, byte i element i in its low
// and element i + 4 in its high half, so that a shift and a mask make them 8-bit codes in order of the
// elements.
#pragma once

#include "kernels/op/step.h"
#include "tensor/dtype.h"

namespace rafter::kernels {

inline constexpr int64_t kBlockPositions = 64;

// How wide the codes of a layer are. A row is rotated before it is quantised: each run of its values, as long
// as the largest power of two that divides head_dim, is multiplied by the Walsh-Hadamard matrix R over the
// root of its size (strides 1, 2, 4, …: a, b → a + b, a − b; then the factor), all in fp32. That spreads the
// few large channels that keys have over the head; nothing rotates a row back when it is read: R is
// orthogonal and its own inverse, so q·k = Rq·Rk, and Σ w v = R Σ w Rv.
//
// Then each group is quantised, in fp32 (n = 2^bits − 1):
//   lo, hi = the least and the largest value
//   bias   = lo + 0, rounded to bf16 towards −∞
//   scale  = max((hi − bias) / n, 2^−100), rounded to bf16 towards +∞
//   code   = round(min((x − bias) · (1 / scale), n)), ties to even
//   x̂      = scale · code + bias
// so |x − x̂| ≤ scale / 2 and a few roundings of fp32: codes are made with the scale and bias that are stored.
// (MLX makes them with unrounded ones and then stores these in bf16, which costs up to 2^−9 of the range
// more, and moves the bias so that zero has a code, which gains nothing here.) A group with a value that is
// not finite once rotated, or a scale that is not, decodes to NaN.
struct KvCodes {
  int32_t bits = 0;        // 8 or 4; 0: no codes
  int32_t group_size = 0;  // values, a multiple of 8 that divides head_dim

  bool operator==(const KvCodes&) const = default;
};

// Keys of a head have much in common, and a step is a fixed part of a row's range: a key is quantised less
// the mean of rows before it in its block, as these decode, in the rotated basis:
//   n     = the largest of 4, 8, 16, 32 that is no more than the slot; below 4: none
//   mean  = (Σ_{p < n} x̂_p) · (1 / n), in fp32, p ascending
//   x̂     = (scale · code + bias) + mean
// The mean takes no memory and next to no time: q · mean is the mean of n scores that are computed already.
//
// What it is for: the starter model's KL to its own uncompressed run, both in the default mode, is 0.86 e-3
// nats at 8 bits with it and 1.21 e-3 without, of which 0.51 e-3 is there for any change of the cache at all
// (its roundings come out otherwise: an fp32 cache is as far from the bf16 one). Of the rest nine tenths were
// the keys'. What did less, or cost more, over the same text, in 1e-3 nats: no rotation 2.0; groups of
// 32 1.09, of 16 0.92 (an eighth more bytes each); scales and biases in fp32 1.20; the first block in
// bf16 1.04, its first row alone 1.25; relative to the last row of the block before 1.08, to the mean of its
// last 16 rows 0.98, of all 0.93 (one vector more to keep per block); to the mean of rows 1 … 16 of the
// sequence for all that follow 1.01; within the block to the first 8 rows 1.02, 16 rows 1.06, 16 and 32 rows
// 0.98, 8, 16 and 32 rows 0.94, 1, 2, 4, … rows 0.89.
inline int64_t key_reference_rows(int64_t slot) {
  return slot < 4 ? 0 : slot < 8 ? 4 : slot < 16 ? 8 : slot < 32 ? 16 : 32;
}

inline constexpr float kSmallestKvScale = 0x1p-100f;  // its inverse is finite

struct KvLayer {
  std::byte* keys = nullptr;                 // of block 0
  std::byte* values = nullptr;               // of block 0
  int64_t block_stride = 0;                  // bytes from one block to the next, the same for keys and values
  tensor::DType type = tensor::DType::bf16;  // bf16 or f32; means nothing with codes
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t kind = 0;  // whose block tables it reads
  KvCodes codes = {};

  // Always inline, as far as kernels call them: see Worker::claim.
  [[gnu::always_inline]] bool has_codes() const { return codes.bits != 0; }
  [[gnu::always_inline]] int64_t groups() const { return has_codes() ? head_dim / codes.group_size : 0; }
  // Values that are rotated together: the largest power of two that divides a head.
  [[gnu::always_inline]] int64_t rotated_run() const { return head_dim & -head_dim; }
  // Bytes of one position's elements or codes, for one kv head.
  [[gnu::always_inline]] int64_t row_bytes() const {
    return has_codes() ? head_dim * codes.bits / 8 : head_dim * (type == tensor::DType::f32 ? 4 : 2);
  }
  // Bytes that a position's keys take, or its values, for one kv head: scales and biases included.
  [[gnu::always_inline]] int64_t position_bytes() const { return row_bytes() + groups() * 4; }
  // Of a block, for one kv head.
  [[gnu::always_inline]] int64_t head_bytes() const { return kBlockPositions * position_bytes(); }
  // Of a block.
  int64_t side_bytes() const { return kv_heads * head_bytes(); }
  // Offset of [kv_head][slot][0] inside a block, in bytes.
  [[gnu::always_inline]] int64_t offset(int64_t kv_head, int64_t slot) const {
    return kv_head * head_bytes() + slot * row_bytes();
  }
  // Offset of the scale of [kv_head][slot][group]; its bias is kBlockPositions · 2 bytes further on.
  [[gnu::always_inline]] int64_t scale_offset(int64_t kv_head, int64_t slot, int64_t group) const {
    return kv_head * head_bytes() + kBlockPositions * row_bytes() + (group * 2 * kBlockPositions + slot) * 2;
  }
};

// The block ids of row b's sequence. Always inline: see Worker::claim.
[[gnu::always_inline]] inline const int32_t* block_table(const StepInput& input, const KvLayer& cache,
                                                         int64_t b) {
  return input.block_tables + cache.kind * input.block_table_kind_stride +
         input.sequences[b] * input.block_table_stride;
}

// Appends each row's key and value at its position. Rounds to the cache's type (nearest, ties to even) or
// quantises: every back end stores the same bytes.
struct KvAppendArgs {
  const StepInput* input = nullptr;
  KvLayer cache;
  const float* k = nullptr;  // [B, KV · HD], already rotated
  const float* v = nullptr;  // [B, KV · HD]
};

inline Cost cost(const KvAppendArgs& a, int64_t rows) {
  const int64_t heads = rows * 2 * a.cache.kv_heads;
  return {0, heads * a.cache.position_bytes(), heads * a.cache.head_dim * 4, 0};
}

}  // namespace rafter::kernels
