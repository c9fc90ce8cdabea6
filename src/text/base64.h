// Base64 as RFC 4648 section 4 has it, with or without the padding at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rafter::text {

// The bytes; nothing if the text is malformed.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace rafter::text
