// GGUF's tensor types: the size of each, and what this program makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/number_format.h"

namespace rafter::format {

struct GgufType {
  uint32_t id;
  std::string_view name;  // "Q4_0"
  uint32_t block;         // elements a block; a row is a whole number of blocks
  uint32_t block_bytes;
  std::optional<tensor::DType> dtype;              // one element after another
  std::optional<tensor::FormatKind> block_format;  // quantised, readable; neither: known by size only
};

// nullptr for an id that is not in the table.
const GgufType* find_gguf_type(uint32_t id);
// The type that stores a plain or GGUF number format; nullptr for affine.
const GgufType* find_gguf_type(tensor::NumberFormat format);
// Where an unknown id comes from, for a message: "a removed type", "a type of another program"; "" if nothing
// is known.
std::string_view gguf_type_remark(uint32_t id);

}  // namespace rafter::format
