// From the regular expressions of tokenizer files (Oniguruma's Ruby syntax over Unicode, with `.` matching
// newlines, as the `tokenizers` library compiles them) to PCRE2's.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::text {

// The same language for PCRE2 under UTF, UCP and MULTILINE. What differs between the two:
//   \s       White_Space (25 characters); PCRE2's has U+180E in some versions
//   \w, \b   Oniguruma's word characters; PCRE2 10.42 leaves marks out
//   \p{L} …  completed by text/unicode_additions.inc, since PCRE2's tables may be older
//   \p{Han}  a script; PCRE2 reads script extensions
//   \h, \v   a hexadecimal digit, U+000B; PCRE2 reads classes of white space
//   {n,m}+   a repeated group; PCRE2 reads a possessive quantifier
//   {,m}     {0,m}; PCRE2 reads a literal
// Anything whose meaning would differ or is not known to agree is refused (unsupported), never guessed at.
base::Result<std::string> translate_to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace rafter::text
