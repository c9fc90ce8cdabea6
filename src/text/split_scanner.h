// Hand-written scanners for the pre-tokenizer patterns that nearly all byte-level vocabularies use. Each
// gives exactly the matches of its pattern; most of these patterns cover any text without gaps; a gap
// of the others is a piece too.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rafter::text {

enum class SplitScanner {
  gpt2,      // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama3,    // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
             //   |\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,     // llama3 with \p{N} for \p{N}{1,3}
  minicpm5,  // llama3 with \p{N}+
  qwen35,    // qwen2 with marks counted among the letters
  o200k,   // words of capitals and small letters with the contraction behind them, \p{N}{1,3}, symbols, space
  tekken,  // o200k without contractions, with \p{N} for \p{N}{1,3}
  digit_groups,  // \p{N}{1,3}
  ideographs,    // [一-龥぀-ゟ゠-ヿ]+, DeepSeek's second pattern
  deepseek,      // its third: words with marks, which one ASCII symbol may begin; symbols; space
};

// The scanner for exactly this regular expression, if there is one.
std::optional<SplitScanner> scanner_for_pattern(std::string_view pattern);
std::string_view pattern_of_scanner(SplitScanner scanner);

// Whether the pattern matches all of any text, so that nothing lies between its matches.
bool covers_everything(SplitScanner scanner);

// Bytes of the piece at the start of `text`, which is valid UTF-8 and not empty. At least 1. Reads past the
// piece only as far as its pattern looks ahead, so cutting a text into all its pieces takes linear time.
size_t first_piece_length(SplitScanner scanner, std::string_view text);

}  // namespace rafter::text
