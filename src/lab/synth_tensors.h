// What a synthetic checkpoint holds, before anything is written: its formats, its tensors, their parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint_path.h"
#include "lab/synth_shapes.h"
#include "tensor/dtype.h"
#include "tensor/number_format.h"

namespace rafter::lab {

// How a checkpoint's matrices are stored. Norms are bf16 in safetensors and f32 in GGUF, as converters leave
// them.
struct SynthFormat {
  std::string name;  // on the command line
  format::Container container;
  tensor::NumberFormat inner;  // matrices of the layers between the first and the last
  tensor::NumberFormat outer;  // matrices of the first and the last layer
  tensor::NumberFormat heads;  // the embedding and the output head
};

std::span<const SynthFormat> synth_formats();

// `group`: columns that share a scale in the MLX formats.
// Errors (invalid_argument): no such format; a group that is none of MLX's, or for a format without groups.
base::Result<SynthFormat> find_synth_format(const std::string& name, int64_t group);

enum class SynthContent {
  matrix,         // random, [rows, columns]
  norm,           // random near 1, [rows]
  rope_divisors,  // GGUF's form of Llama 3's scaling, [rows]
};

struct SynthTensor {
  std::string module;  // without ".weight", as the container spells it
  SynthContent content = SynthContent::matrix;
  int64_t rows = 0, columns = 0;  // a vector's columns: 0
  tensor::NumberFormat format;
  bool streamed = false;  // a matrix that every decode step reads whole

  int64_t bytes() const {
    return format.matrix_bytes(columns == 0 ? 1 : rows, columns == 0 ? rows : columns);
  }
  int64_t parameters() const {
    return content == SynthContent::rope_divisors ? 0 : rows * (columns == 0 ? 1 : columns);
  }
};

// Every tensor in the order of the forward pass.
// Error (invalid_argument): rows of the shape are no whole number of the format's blocks.
base::Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& shape, const SynthFormat& format);

// One entry of a safetensors header.
struct SynthPart {
  std::string name;  // "model.norm.weight", "lm_head.scales"
  tensor::DType type;
  std::vector<int64_t> shape;
};

// What a tensor is stored as in safetensors: one part, or three where it is quantised.
std::vector<SynthPart> safetensors_parts(const SynthTensor& tensor);

}  // namespace rafter::lab
