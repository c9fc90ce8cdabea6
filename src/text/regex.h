// A regular expression of a tokenizer file, run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::text {

struct TextSpan {
  size_t begin = 0;
  size_t end = 0;  // past the last byte
};

class Regex {
 public:
  // `pattern` is in Oniguruma's syntax (text/regex_translate.h). Error: malformed, or outside what is
  // supported.
  static base::Result<Regex> compile(std::string_view pattern, const std::string& where);

  // All matches in valid UTF-8, left to right, not overlapping. Empty ones count (they cut), except right
  // behind another match. Error: the pattern takes too many steps or too much time on this text; patterns
  // come from files and may be made to.
  base::Status find_all(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace rafter::text
