// Random weights made in their stored form: random codes under plausible scales, thousands of times faster
// than drawing normals and encoding them. A matrix's elements have mean near 0 and standard deviation
// `deviation`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/number_format.h"

namespace rafter::cli {

using ByteSink = std::function<base::Status(std::span<const std::byte>)>;

// Where the parts of a matrix go; scales and biases only for affine formats.
struct MatrixSinks {
  ByteSink data, scales, biases;
};

// The seed of a tensor by its name: the same whatever is written before it.
uint64_t tensor_seed(uint64_t seed, std::string_view name);

// Writes rows × columns in portions of some hundred kilobytes. `columns` is a multiple of the format's block.
// Errors: those of the sinks.
base::Status write_random_matrix(const tensor::NumberFormat& format, int64_t rows, int64_t columns,
                                 double deviation, uint64_t seed, const MatrixSinks& sinks);

// A norm's weights: uniform in [0.5, 1.5]. `type`: bf16 or f32.
base::Status write_random_norm(tensor::DType type, int64_t size, uint64_t seed, const ByteSink& sink);

}  // namespace rafter::cli
