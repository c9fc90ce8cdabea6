// Text normalization in front of the pre-tokenizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace rafter::text {

// Normal form C goes by utf8proc's tables (Unicode 15 in Debian 12). Those of the `tokenizers` library are
// older: it leaves some hundred rare marks that came after Unicode 10 unordered, and U+11935 U+11930
// uncomposed.

// The normal form C of valid UTF-8. Returns `text` itself when it is plainly normal already, otherwise a view
// of `storage`. Takes linear time.
std::string_view normalize_nfc(std::string_view text, std::string& storage);

// All steps, left to right. The view is of `text` or of `storage`.
std::string_view normalize(std::span<const NormalizerStep> steps, std::string_view text,
                           std::string& storage);

}  // namespace rafter::text
