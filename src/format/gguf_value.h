// A GGUF metadata value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tensor/dtype.h"

namespace rafter::format {

// An array of numbers or booleans: its bytes stay in the mapping.
struct GgufArray {
  tensor::DType type = tensor::DType::u8;  // f32, f64, boolean or an integer type
  uint64_t count = 0;
  const std::byte* data = nullptr;

  bool is_integer() const;            // an integer type or boolean
  int64_t integer(uint64_t i) const;  // a u64 above int64's range is cut to its low 64 bits
  double number(uint64_t i) const;
};

// Signed integers of any width are int64_t, unsigned ones uint64_t, both float widths double. Strings are
// copied, byte for byte: token strings need not be UTF-8. monostate never appears in a file's map.
struct GgufValue {
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, GgufArray,
               std::vector<std::string>>
      value;
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

}  // namespace rafter::format
