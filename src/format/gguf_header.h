// The header of a GGUF file (version 2 or 3, little-endian), validated before any tensor's address is
// formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf_types.h"
#include "format/gguf_value.h"

namespace rafter::format {

struct GgufTensor {
  std::string name;
  const GgufType* type = nullptr;
  std::vector<int64_t> shape;  // row-major: the file's order reversed
  uint64_t offset = 0;         // bytes, from data_start
  uint64_t bytes = 0;
};

struct GgufHeader {
  uint32_t version = 3;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // by position in the file
  uint64_t data_start = 0;          // byte of the file that offsets count from
};

// `file` is the whole file and must outlive the metadata's arrays. Errors name the key or the tensor:
// invalid_data, or unsupported for versions, byte orders and tensor types that this program does not know.
base::Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, const std::string& where);

}  // namespace rafter::format
