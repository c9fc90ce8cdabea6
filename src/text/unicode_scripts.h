// Scripts of characters as the UnicodeScripts step sees them: kana and the prolonged sound mark count as Han;
// the space, and what the `tokenizers` library's table does not know, go with anything.
#pragma once

#include <cstdint>

namespace rafter::text {

inline constexpr uint8_t kAnyScript = 0;

// A number of text/unicode_scripts.inc. Common and inherited characters have scripts of their own.
uint8_t script_of(char32_t character);

}  // namespace rafter::text
