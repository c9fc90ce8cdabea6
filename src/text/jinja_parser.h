// From tokens to the tree, by Jinja's grammar with the loop control and `generation` tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace rafter::text::jinja {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr int kMaxExpressionHeight = 200;  // as the reference, whose compiler nests no deeper
inline constexpr int kMaxStatementDepth = 100;

// Parses and resolves. Throws Failure (syntax).
Tree parse_template(std::string_view source);

// The tokens and where the parser stands in them.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  bool at(TokenType type) const { return current().type == type; }
  bool at_name(std::string_view name) const { return is_name(current(), name); }
  static bool is_name(const Token& token, std::string_view name) {
    return token.type == TokenType::name && token.text == name;
  }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_if(TokenType type);
  bool skip_if_name(std::string_view name);
  const Token& expect(TokenType type);
  void expect_name(std::string_view name);

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  enum class Mode : uint8_t { full, no_conditional };
  ExpressionPtr expression(Mode mode = Mode::full);
  // Expressions separated by commas: a tuple if there is a comma, else the expression itself.
  ExpressionPtr expression_or_tuple(Mode mode = Mode::full, bool in_parens = false);
  // `| name(…) | name(…)` after `input`, which may be null; `first_is_open`: the first name follows directly.
  ExpressionPtr filters(ExpressionPtr input, bool first_is_open = false);
  Target target(bool allow_attributes);
  std::string target_name();

 private:
  class Descent;

  ExpressionPtr conditional();
  ExpressionPtr logic_or();
  ExpressionPtr logic_and();
  ExpressionPtr logic_not();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_literal();
  ExpressionPtr list_display();
  ExpressionPtr dict_display();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr dotted(ExpressionPtr value);
  ExpressionPtr call(ExpressionPtr callee);
  ArgumentList arguments(Expression& owner);
  std::string dotted_name();
  Target simple_target(bool allow_attributes);
  bool at_tuple_end() const;

  TokenStream& stream_;
  int depth_ = 0;
};

class StatementParser {
 public:
  explicit StatementParser(TokenStream& stream) : stream_(stream), expressions_(stream) {}
  Body whole_template();

 private:
  Body until(const std::vector<std::string_view>& end_tags);
  Body tag_body(const std::vector<std::string_view>& end_tags);
  Body tag_body_and_end(std::string_view end_tag);
  bool at_end_tag(const std::vector<std::string_view>& end_tags) const;
  [[noreturn]] void fail_unclosed();
  [[noreturn]] void fail_unknown_tag();

  StatementPtr statement();
  StatementPtr for_loop();
  StatementPtr if_chain();
  StatementPtr set();
  StatementPtr macro();
  StatementPtr call_block();
  StatementPtr filter_block();
  StatementPtr with();
  StatementPtr generation();
  StatementPtr block();
  StatementPtr print();
  StatementPtr loop_control();
  StatementPtr include();
  StatementPtr import();
  StatementPtr from_import();
  void import_context();
  void signature(MacroPlan& plan);

  TokenStream& stream_;
  ExpressionParser expressions_;
  std::vector<std::string> open_tags_;
  std::vector<std::vector<std::string_view>> end_tags_;
};

}  // namespace rafter::text::jinja
