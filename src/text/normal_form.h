// Unicode's normal forms.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace rafter::text {

// The forms go by utf8proc's tables (Unicode 15 in Debian 12). Those of the `tokenizers` library are older:
// it leaves some hundred rare marks that came after Unicode 10 unordered, and U+11935 U+11930 uncomposed.

// A normal form of valid UTF-8. Returns `text` itself when it is plainly normal already, otherwise a view of
// `storage`. Takes linear time.
std::string_view normalize(NormalForm form, std::string_view text, std::string& storage);

}  // namespace rafter::text
