// The header of a safetensors file, validated before any tensor's address is formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace rafter::format {

struct SafetensorsType {
  std::string_view name;  // "BF16"
  int bits;
  std::optional<tensor::DType> dtype;  // nullopt: known by size only
};

// nullptr for a name that is not in the format.
const SafetensorsType* find_safetensors_type(std::string_view name);
// The type that stores `dtype`: every DType has one.
const SafetensorsType& safetensors_type(tensor::DType dtype);

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<int64_t> shape;   // row-major; may be empty (one element) and hold zeros (no element)
  uint64_t begin = 0, end = 0;  // bytes, from data_start
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // by position in the file
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // byte of the file that offsets count from
};

// `file` is the whole file. Tensors are contiguous: holes, overlaps and bytes after the last tensor are
// errors. Errors name the tensor: invalid_data, or unsupported for a dtype that is not in the format.
base::Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file,
                                                         const std::string& where);

}  // namespace rafter::format
