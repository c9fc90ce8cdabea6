// Cuts text into pre-tokens, the pieces that a BPE model never merges across.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/regex.h"
#include "text/split_scanner.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// Takes the pre-tokens in order. A view lives only until the call returns.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view bytes) = 0;
};

class PreTokenizer {
 public:
  // Chooses the hand-written scanner of a pattern that has one, PCRE2 for any other.
  // Error: not exactly one byte-level step, at the end; a regular expression outside what is supported.
  static base::Result<PreTokenizer> compile(const std::vector<PreTokenizerStep>& steps,
                                            const std::string& where);

  // `text` is valid UTF-8. Pre-tokens are never empty. Error: a regular expression takes too long.
  base::Status split(std::string_view text, PieceSink& sink) const;

 private:
  struct Scan {
    SplitScanner scanner;
  };
  struct PatternSplit {
    std::variant<Regex, std::string> pattern;  // a string is a literal
    SplitBehavior behavior;
    bool inverted;
  };
  struct Digits {
    bool individual;
  };
  struct PrefixSpace {};  // in front of a piece that does not start with a space
  using Step = std::variant<Scan, PatternSplit, Digits, PrefixSpace>;

  base::Status run(size_t step, std::string_view text, PieceSink& sink) const;

  std::vector<Step> steps_;
};

}  // namespace rafter::text
