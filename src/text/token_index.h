// What a vocabulary's tokens write, arranged for the question which of them a grammar takes next. Built once
// per model; a value that is cheap to copy, for any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar_machine.h"
#include "text/token_mask.h"
#include "text/tokenizer.h"

namespace rafter::text {

class TokenIndex {
 public:
  // Special tokens write nothing and are never allowed, except `end_tokens` at an end.
  // Error (unsupported): a tokenizer whose tokens are not strings of bytes of their own, or cannot write
  // every character of ASCII by itself.
  static base::Result<TokenIndex> from(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens);

  // The tokens whose bytes `machine` can read from a configuration; the end tokens where it is complete.
  TokenBits allowed(GrammarMachine& machine, GrammarMachine::Configuration from) const;

  // The bytes of a token that can be allowed, as they follow others; empty for special ones and end tokens.
  std::string_view writes(int32_t id) const;
  bool is_end(int32_t id) const;
  int32_t vocab_size() const;

 private:
  struct Data;
  explicit TokenIndex(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  std::shared_ptr<const Data> data_;
};

}  // namespace rafter::text
