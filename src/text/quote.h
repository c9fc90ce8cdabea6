// Text from a file inside an error message.
#pragma once

#include <string>
#include <string_view>

namespace rafter::text {

// `text` between double quotes, on one line whatever it holds: control characters and malformed bytes become
// U+FFFD, and what goes past 60 bytes "…".
std::string quote(std::string_view text);

}  // namespace rafter::text
