// Cuts text into pre-tokens, the pieces that a model never joins.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pattern.h"
#include "text/split_scanner.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// Takes the pre-tokens in order. A view lives only until the call returns. False stops the cutting.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual bool piece(std::string_view text) = 0;
};

class PreTokenizer {
 public:
  // What a byte-level step makes of a piece: its bytes as they are, for models that read bytes, or text in
  // the byte-level alphabet.
  enum class Pieces { bytes, text };

  // Chooses the hand-written scanner of a pattern that has one, PCRE2 for any other.
  // Error: too many steps, a regular expression outside what is supported, and with Pieces::bytes anything
  // but exactly one byte-level step, at the end.
  static base::Result<PreTokenizer> compile(const std::vector<PreTokenizerStep>& steps, Pieces pieces,
                                            const std::string& where);

  // `text` is valid UTF-8; its `first_bytes` come from the first character of the whole input. Pre-tokens are
  // never empty. Error: a regular expression takes too long.
  base::Status split(std::string_view text, size_t first_bytes, PieceSink& sink) const;

 private:
  struct Scan {
    SplitScanner scanner;
  };
  struct PatternSplit {
    Pattern pattern;
    SplitBehavior behavior;
    bool inverted;
  };
  struct Digits {
    bool individual;
  };
  struct PrefixSpace {};   // in front of a piece that does not start with a space
  struct ByteAlphabet {};  // the piece in the byte-level alphabet
  struct FixedLength {
    size_t length;
  };
  using Step = std::variant<Scan, PatternSplit, Digits, PrefixSpace, ByteAlphabet, FixedLength, WordsStep,
                            CharKindStep, ScriptsStep, MetaspaceStep>;

  class Run;  // over one text

  base::Status add(const PreTokenizerStep& step, Pieces pieces, const std::string& where);

  std::vector<Step> steps_;
};

}  // namespace rafter::text
