// Text normalization in front of the pre-tokenizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace rafter::text {

// The normal form C of valid UTF-8. Returns `text` itself when it is plainly normal already, otherwise a view
// of `storage`. Linear in the text up to the sorting of runs of combining marks.
std::string_view normalize_nfc(std::string_view text, std::string& storage);

// All steps, left to right. The view is of `text` or of `storage`.
std::string_view normalize(std::span<const NormalizerStep> steps, std::string_view text,
                           std::string& storage);

}  // namespace rafter::text
