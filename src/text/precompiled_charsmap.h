// SentencePiece's compiled normalization rules: a double array that leads from a character (or a few) to its
// replacement. The layout is that of the `darts-clone` library: little-endian 32-bit units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::text {

class PrecompiledCharsmap {
 public:
  // `bytes`: the size of the array in bytes (32 bits), the array, and the replacements, each ended by a zero
  // byte. Error: the sizes do not fit, or the replacements are not UTF-8.
  static base::Result<PrecompiledCharsmap> parse(std::string_view bytes, const std::string& where);

  // Replaces by grapheme cluster, as the `tokenizers` library does: one of fewer than 6 bytes that begins
  // with something in the array becomes the replacement of the shortest such beginning; any other is replaced
  // character by character. `text` is valid UTF-8. `first_bytes` counts the bytes at the beginning that the
  // library says come from there: it counts characters, each one of the result for one of the text, so that
  // it is out of step from where the map drops one at the very beginning.
  std::string apply(std::string_view text, size_t& first_bytes) const;

  // As SentencePiece itself does: from left to right, the longest entry that the rest begins with.
  std::string apply_longest(std::string_view text) const;

 private:
  struct Match {
    std::string_view replacement;
    size_t length;  // bytes of the entry
  };
  // The shortest or the longest entry that `text` begins with.
  std::optional<Match> find(std::string_view text, bool longest) const;
  std::optional<std::string_view> replacement_of(std::string_view text) const {
    const std::optional<Match> match = find(text, false);
    return match ? std::optional(match->replacement) : std::nullopt;
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace rafter::text
