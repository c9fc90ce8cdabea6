// What a tokenizer is made of, whatever file described it. tokenizer.json and GGUF metadata both become a
// BpeSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rafter::text {

// Ids lie in [0, kMaxTokens): real vocabularies end near 500,000, so a larger id is a hostile or broken file.
inline constexpr int32_t kMaxTokens = 1 << 21;

// A token that is cut out of the text before anything else looks at it.
struct AddedToken {
  int32_t id = -1;
  std::string content;       // literal text, never in the byte-level alphabet
  bool special = false;      // decode may hide it; it does not change how it is found
  bool normalized = false;   // searched in the normalized text, as its own normalized form
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space after it
  bool single_word = false;  // not found next to a word character
};

enum class NormalizerStep { nfc };

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Cuts a piece at the matches of a pattern. `inverted` swaps the roles of matches and of what lies between.
struct SplitStep {
  std::string pattern;
  bool is_regex = true;  // Oniguruma syntax; otherwise a literal
  SplitBehavior behavior = SplitBehavior::isolated;
  bool inverted = false;
};

// Cuts out runs of numeric characters, or each one alone.
struct DigitsStep {
  bool individual = true;
};

// The step to the bytes of a piece: always the last one.
struct ByteLevelStep {
  bool add_prefix_space = false;  // in front of every piece that does not start with a space
  bool use_regex = true;          // cut with GPT-2's pattern first
};

using PreTokenizerStep = std::variant<SplitStep, DigitsStep, ByteLevelStep>;

// A byte-level BPE tokenizer. Pieces and merges are written in the byte-level alphabet
// (text/byte_alphabet.h).
struct BpeSpec {
  std::vector<std::string>
      pieces;  // [id]; an empty string is a hole: it never matches and decodes to nothing
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  bool first_duplicate_merge_wins = false;                  // as in GGUF; in tokenizer.json the last one does
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;  // ends in a ByteLevelStep
  bool ignore_merges = false;                   // a pre-token that is a piece is taken whole
  std::optional<std::string>
      unknown_piece;            // for bytes that are not in the vocabulary; without it they vanish
  bool fuse_unknown = false;    // adjacent unknown bytes give one token
  std::vector<int32_t> prefix;  // put in front when special tokens are wanted: BOS
  std::vector<int32_t> suffix;  // put behind: EOS
};

// "left right" as GGUF writes merges: cut at the first space at index 1 or later. Nothing if there is none.
std::optional<std::pair<std::string, std::string>> split_merge(std::string_view merge);

}  // namespace rafter::text
