// What a tokenizer is made of, whatever file described it: tokenizer.json, GGUF metadata and a SentencePiece
// model all become a TokenizerSpec.
#pragma once

#include <cstddef>
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

// ---- Normalizers: text to text ----

enum class NormalForm { nfc, nfd, nfkc, nfkd };
struct NormalFormStep {
  NormalForm form = NormalForm::nfc;
};
struct LowercaseStep {};     // character by character, without context
struct StripAccentsStep {};  // drops combining marks, without decomposing first
struct StripSpaceStep {      // white space at the ends
  bool left = true, right = true;
};
struct NmtStep {};  // control characters go, odd white space becomes a space
struct ReplaceStep {
  std::string pattern;
  bool is_regex = false;  // Oniguruma syntax; otherwise a literal
  std::string content;    // literal
};
struct PrependStep {  // in front of what is not empty
  std::string text;
};
struct PrecompiledStep {  // SentencePiece's rules, as text/precompiled_charsmap.h reads them
  std::string charsmap;
  bool by_longest = false;  // as SentencePiece itself applies them, not as the `tokenizers` library does
};
struct ByteAlphabetStep {};  // bytes become the characters of the byte-level alphabet
struct BertNormalizerStep {
  bool clean_text = true;            // control characters go, white space becomes spaces
  bool handle_chinese_chars = true;  // spaces around them
  bool strip_accents = false;
  bool lowercase = true;
};
using NormalizerStep =
    std::variant<NormalFormStep, LowercaseStep, StripAccentsStep, StripSpaceStep, NmtStep, ReplaceStep,
                 PrependStep, PrecompiledStep, ByteAlphabetStep, BertNormalizerStep>;

// ---- Pre-tokenizers: text to pieces ----

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

// Cuts at characters of one kind, each a match of its own.
enum class CharKind { punctuation, white_space };
struct CharKindStep {
  CharKind kind = CharKind::punctuation;
  SplitBehavior behavior = SplitBehavior::isolated;
};

struct ScriptsStep {};    // cuts where the script changes; what has none before the first script is dropped
struct WordsStep {};      // runs of word characters, and runs of neither those nor white space
struct FixedLengthStep {  // characters per piece
  size_t length = 5;
};

enum class PrependScheme { always, first, never };

// Spaces become `replacement`, one is put in front, and pieces begin at each of them. `first`: only in front
// of a piece whose first byte comes from the first character of the whole input.
struct MetaspaceStep {
  std::string replacement = "\u2581";  // one character
  PrependScheme scheme = PrependScheme::always;
  bool split = true;
};

// The step to the bytes of a piece.
struct ByteLevelStep {
  bool add_prefix_space = false;  // in front of every piece that does not start with a space
  bool use_regex = true;          // cut with GPT-2's pattern first
};

using PreTokenizerStep = std::variant<SplitStep, DigitsStep, CharKindStep, ScriptsStep, WordsStep,
                                      FixedLengthStep, MetaspaceStep, ByteLevelStep>;

// ---- Models: pieces to ids ----

// Byte-pair encoding. With a byte-level pre-tokenizer at the end, pieces and merges are written in the
// byte-level alphabet (text/byte_alphabet.h); otherwise they are text.
struct BpeSpec {
  // [id]; an empty string is a hole: it never matches and decodes to nothing
  std::vector<std::string> pieces;
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  bool first_duplicate_merge_wins = false;                  // as in GGUF; in tokenizer.json the last one does
  bool ignore_merges = false;                               // a pre-token that is a piece is taken whole
  // for what is not in the vocabulary; without it that vanishes
  std::optional<std::string> unknown_piece;
  bool fuse_unknown = false;      // adjacent unknowns give one token
  bool byte_fallback = false;     // a character that is no piece becomes its bytes' pieces, "<0xE4>"
  std::string continuing_prefix;  // in front of every character of a piece but the first: "##"
  std::string word_suffix;        // behind the last character of a piece: "</w>"
  // SentencePiece's way instead of a list of merges: [id], two neighbours merge if they make a piece that is
  // `mergeable`, those of the highest score first. Empty: `merges` counts.
  std::vector<float> scores;
  std::vector<bool> mergeable;
};

// The most probable cut into pieces.
struct UnigramSpec {
  std::vector<std::string> pieces;
  std::vector<double> scores;  // [id], log probabilities
  std::optional<int32_t> unknown_id;
  bool byte_fallback = false;
  std::vector<bool> is_text;  // [id], whether text can become the piece; empty: all of them
};

// The longest piece first, from the left.
struct WordPieceSpec {
  std::vector<std::string> pieces;
  std::string unknown_piece = "[UNK]";
  std::string continuing_prefix = "##";
  size_t longest_word = 100;  // characters; a longer word is unknown
};

// Each word is a piece, or unknown.
struct WordLevelSpec {
  std::vector<std::string> pieces;
  std::string unknown_piece = "<unk>";
};

using ModelSpec = std::variant<BpeSpec, UnigramSpec, WordPieceSpec, WordLevelSpec>;

// ---- Decoders: the texts of tokens to text ----

struct ByteLevelDecoder {};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
  char32_t content = ' ';
  size_t start = 0, stop = 0;  // how many to remove at most
};
struct ReplaceDecoder {
  std::string pattern;
  bool is_regex = false;
  std::string content;
};
struct MetaspaceDecoder {
  std::string replacement = "\u2581";
  bool drops_first = true;  // those of the first token vanish
};
struct WordPieceDecoder {
  std::string prefix = "##";
  bool cleanup = true;
};
struct CtcDecoder {
  std::string pad_token = "<pad>";
  std::string word_delimiter = "|";
  bool cleanup = true;
};
struct WordSuffixDecoder {
  std::string suffix = "</w>";
};
using DecoderStep =
    std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder, ReplaceDecoder,
                 MetaspaceDecoder, WordPieceDecoder, CtcDecoder, WordSuffixDecoder>;

struct TokenizerSpec {
  ModelSpec model;
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;
  bool joins_with_spaces = false;  // decoding without a decoder puts a space between tokens
  std::vector<int32_t> prefix;     // put in front when special tokens are wanted: BOS
  std::vector<int32_t> suffix;     // put behind: EOS
};

// "left right" as GGUF writes merges: cut at the first space at index 1 or later. Nothing if there is none.
std::optional<std::pair<std::string, std::string>> split_merge(std::string_view merge);

}  // namespace rafter::text
