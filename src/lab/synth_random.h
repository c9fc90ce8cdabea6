// Random weights made in their stored form: random codes under random scales, at the speed of memory, where
// drawing normals and quantising them would take minutes. A byte depends on the key and its place alone, so
// the same seed gives the same file on every machine, whatever the portions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/number_format.h"

namespace rafter::lab {

// The key of a tensor's numbers: by name, so that it does not matter what is written before it.
uint64_t synth_key(uint64_t seed, std::string_view name);

// Rows of a matrix [*, columns] whose elements have mean 0 and standard deviation 1 / √columns: a product
// with inputs of unit size has unit size. bf16, f32: normally distributed. Quantised: uniform codes, scales
// of either sign within ±25 % of their mean, the offsets that put zero in the middle of the codes.
class RandomMatrix {
 public:
  // `format`: bf16, f32, affine of 2, 4 or 8 bits with bf16 scales, q4_0, q8_0, q4_k, q5_k or q6_k.
  // `columns`: whole blocks.
  RandomMatrix(tensor::NumberFormat format, int64_t columns, uint64_t key);
  ~RandomMatrix();

  // Fills as many rows from `first_row` on as `data` holds. `scales` and `biases`: affine only, of as many
  // rows.
  void fill(int64_t first_row, std::span<std::byte> data, std::span<std::byte> scales = {},
            std::span<std::byte> biases = {}) const;

 private:
  struct Tables;

  void fill_row(int64_t row, std::byte* data, std::byte* scales, std::byte* biases) const;

  tensor::NumberFormat format_;
  int64_t columns_;
  uint64_t key_;
  std::unique_ptr<const Tables> tables_;
};

// The ends of a vector's values.
struct VectorRange {
  float lowest, highest;
};

// Uniform over 65 values from the lowest to the highest. `type`: bf16 or f32.
void fill_random_vector(tensor::DType type, uint64_t key, std::span<std::byte> data, VectorRange range);

}  // namespace rafter::lab
