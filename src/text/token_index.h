// What a vocabulary's tokens write, arranged for the question which of them a grammar takes next. Built once
// per model; a value that is cheap to copy, for any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar_machine.h"
#include "text/token_mask.h"
#include "text/tokenizer.h"

namespace rafter::text {

class TokenIndex {
 public:
  // Special tokens write nothing and are never allowed, except `end_tokens` at an end, and `markers` (at most
  // 255 of them; texts that are no special token's are passed over), which a grammar names by marked().
  // Error (unsupported): a tokenizer whose tokens are not strings of bytes of their own, or cannot write
  // every character of ASCII by itself.
  static base::Result<TokenIndex> from(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                                       const std::vector<std::string>& markers = {});

  // The bytes that a grammar reads where an answer's text is `text`: in place of each marker two that no text
  // has, so that nothing but its token can write it.
  std::string marked(std::string_view text) const;

  // The tokens whose bytes `machine` can read from a configuration; the end tokens where it is complete.
  TokenBits allowed(GrammarMachine& machine, GrammarMachine::Configuration from) const;

  // The bytes of a token that can be allowed, as they follow others and a grammar reads them; empty for
  // special ones that are no markers and end tokens.
  std::string_view writes(int32_t id) const;
  bool is_end(int32_t id) const;
  int32_t vocab_size() const;

 private:
  struct Data;
  explicit TokenIndex(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  std::shared_ptr<const Data> data_;
};

}  // namespace rafter::text
