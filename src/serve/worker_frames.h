// Frames between the front process and its worker: four bytes of length, lowest first, then so many bytes of
// JSON. JSON rather than a binary form because its parser does not recurse, so no frame can exhaust the
// stack.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::serve {

// Of one frame's JSON; the largest prompt there may be takes less.
inline constexpr size_t kLargestFrame = size_t{256} << 20;

// Malformed UTF-8 in strings becomes U+FFFD.
std::string encode_frame(const nlohmann::json& message);

// Takes bytes as they come and gives frames.
class FrameReader {
 public:
  void push(std::string_view bytes) { buffer_ += bytes; }
  // The next frame; nothing if it is not complete. Errors (invalid_data): too large, no JSON. The stream
  // cannot be read on then.
  base::Result<std::optional<nlohmann::json>> next();

 private:
  std::string buffer_;
  size_t read_ = 0;  // bytes of the buffer that were given out
};

}  // namespace rafter::serve
