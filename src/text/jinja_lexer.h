// From template text to tokens, with Jinja's whitespace rules (trim_blocks and lstrip_blocks on, one trailing
// newline dropped): whitespace is settled here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rafter::text::jinja {

enum class TokenType : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  real,
  end,
  add,
  subtract,
  divide,
  floor_divide,
  multiply,
  modulo,
  power,
  tilde,
  left_bracket,
  right_bracket,
  left_paren,
  right_paren,
  left_brace,
  right_brace,
  equal,
  not_equal,
  greater,
  greater_equal,
  less,
  less_equal,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon,
};

struct Token {
  TokenType type;
  int line;
  std::string text;  // data; a name; a string's value; a number without `_`
};

// Throws Failure (syntax). The last token is `end`.
std::vector<Token> tokenize(std::string_view source);

// How a message names a token: `%}` is "end of statement block", an operator itself, a name its text.
std::string describe(const Token& token);
std::string describe(TokenType type);

}  // namespace rafter::text::jinja
