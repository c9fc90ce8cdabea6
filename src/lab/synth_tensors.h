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
  matrix,         // random, [rows, columns] or a stack of them
  norm,           // random near 1, [size]
  centred_norm,   // the same less 1
  convolution,    // random, [channels, taps]
  decay,          // the logarithm of a delta net's rates, [heads]
  negative_rate,  // GGUF's form of it
  time_bias,      // what a delta net adds to its time steps, [heads]
  divisors,       // GGUF's form of Llama 3's scaling and of a partial rotation, [size]
};

// Which spelling of names and layouts a checkpoint has.
enum class SynthForm {
  raw,   // as published
  mlx,   // as mlx-lm converts it
  gguf,  // as llama.cpp converts it
};

struct SynthTensor {
  std::string module;  // as the container spells it
  SynthContent content = SynthContent::matrix;
  std::vector<int64_t> shape;  // row-major; a stack has three dimensions, a convolution's taps may lie alone
  tensor::NumberFormat format;
  bool streamed = false;     // a matrix that every decode step reads, or its share of one
  bool is_bare = false;      // named `module`; else `module`.weight
  int64_t of = 1, read = 1;  // a step reads `read` matrices of a stack of `of`
  float scale = 1;           // of a norm: a power of two

  std::string name() const { return is_bare ? module : module + ".weight"; }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return count;
  }
  // The numbers that follow one another, and how often: a convolution's taps are a row.
  int64_t columns() const {
    if (content == SynthContent::convolution) return shape[1] * (shape.size() == 3 ? shape[2] : 1);
    return shape.back();
  }
  int64_t rows() const { return elements() / columns(); }
  int64_t bytes() const { return format.matrix_bytes(rows(), columns()); }
  int64_t streamed_bytes() const { return streamed ? bytes() / of * read : 0; }
  int64_t parameters() const { return content == SynthContent::divisors ? 0 : elements(); }
};

SynthForm form_of(const SynthFormat& format);

// The list of a checkpoint's tensors as it grows, each named in every form's words.
class SynthTensorList {
 public:
  SynthTensorList(const SynthShape& shape, const SynthFormat& format);

  SynthForm form() const { return form_; }
  // What layer `l`'s matrices are stored as.
  tensor::NumberFormat of_layer(int64_t l) const;
  const SynthFormat& format() const { return format_; }

  // `folder`: the name in a folder without what comes before it; `block`: GGUF's. `{}` in either is a layer.
  struct Name {
    std::string folder, block;
  };
  // A matrix that a step reads. Rows that the format's blocks do not divide are Q8_0, as llama.cpp falls
  // back.
  SynthTensor& matrix(const Name& name, int64_t rows, int64_t columns, tensor::NumberFormat format);
  // A matrix that llama.cpp does not quantise (a router, for one): of `kept` in GGUF's formats.
  SynthTensor& kept_matrix(const Name& name, int64_t rows, int64_t columns, tensor::NumberFormat format,
                           tensor::DType kept = tensor::DType::f32);
  // A stack [of, rows, columns] of which a step reads `read`.
  SynthTensor& stack(const Name& name, const SynthExperts& experts, int64_t rows, int64_t columns,
                     tensor::NumberFormat format);
  // A vector; `content` says of what.
  SynthTensor& vector(const Name& name, int64_t size, SynthContent content = SynthContent::norm);

  std::vector<SynthTensor> take() { return std::move(list_); }

 private:
  SynthTensor& add(const Name& name, SynthTensor tensor);

  const SynthShape& shape_;
  const SynthFormat& format_;
  SynthForm form_;
  std::vector<SynthTensor> list_;
};

// The tensors of one family each, in the order of the forward pass, for synth_tensors().
void list_gemma4_tensors(const SynthShape& shape, SynthTensorList& list);
void list_qwen3_5_tensors(const SynthShape& shape, SynthTensorList& list);

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
