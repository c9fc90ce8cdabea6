// The table of number formats: one row each.
#pragma once

#include <span>
#include <string_view>

#include "tensor/codec_formats.h"
#include "tensor/number_format.h"

namespace rafter::tensor {

struct FormatTraits {
  FormatKind kind;
  std::string_view name;
  // Columns and bytes of one block of a row; of MLX's kinds the NumberFormat itself says (bits, group).
  int block_columns, block_bytes;
  void (*decode)(const NumberFormat&, codec::StoredRow<const std::byte>, std::span<float>);
  void (*encode)(const NumberFormat&, std::span<const float>, codec::StoredRow<std::byte>);
};

const FormatTraits& format_traits(FormatKind kind);
std::span<const FormatTraits> all_format_traits();

}  // namespace rafter::tensor
