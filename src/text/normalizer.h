// Text normalization in front of the pre-tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pattern.h"
#include "text/precompiled_charsmap.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

struct NormalizedText {
  std::string_view text;  // of the input, or of `storage`
  std::string storage;
  // Bytes at the beginning that come from the input's first character; what a step inserts comes from the
  // character before it.
  size_t first_bytes = 0;
};

class Normalizer {
 public:
  // Error: a regular expression or a charsmap that is malformed or not supported.
  static base::Result<Normalizer> compile(const std::vector<NormalizerStep>& steps, const std::string& where);

  // All steps, left to right, over valid UTF-8; gives valid UTF-8. Error: the text grows beyond measure, or a
  // regular expression takes too long.
  base::Status apply(std::string_view text, NormalizedText& result) const;

 private:
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Rules {
    PrecompiledCharsmap map;
    bool by_longest;
  };
  using Step = std::variant<NormalFormStep, LowercaseStep, StripAccentsStep, StripSpaceStep, NmtStep, Replace,
                            PrependStep, Rules, ByteAlphabetStep, BertNormalizerStep>;

  std::vector<Step> steps_;
};

}  // namespace rafter::text
