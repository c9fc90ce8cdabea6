// Bounds-checked little-endian reads through a byte span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace rafter::format {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // False, and nothing moves, if fewer bytes remain.
  template <typename T>
  bool read(T& value) {
    const std::byte* at = nullptr;
    if (!take(sizeof(T), at)) return false;
    value = tensor::load_unaligned<T>(at);
    return true;
  }

  bool take(uint64_t count, const std::byte*& at) {
    if (count > remaining()) return false;
    at = bytes_.data() + position_;
    position_ += count;
    return true;
  }

  // u64 length, then the bytes.
  bool read_string(std::string_view& text) {
    const uint64_t start = position_;
    uint64_t length = 0;
    const std::byte* at = nullptr;
    if (!read(length) || !take(length, at)) {
      position_ = start;
      return false;
    }
    text = {reinterpret_cast<const char*>(at), length};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace rafter::format
