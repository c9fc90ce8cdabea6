// What the sources of the expression parser share.
#pragma once

#include <string>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"
#include "text/jinja_object.h"
#include "text/jinja_parser.h"

namespace rafter::text::jinja {

[[noreturn]] void fail_at(int line, std::string message);

// Makes `child`, which may be null, count in its parent's height; fails if that grows too large.
void raise_height(Expression& parent, const ExpressionPtr& child);

ExpressionPtr make_unary(UnaryOperator operation, ExpressionPtr operand, int line);
Value integer_literal(const Token& token);

// Bounds the parser's own recursion.
class ExpressionParser::Descent {
 public:
  explicit Descent(ExpressionParser& parser) : depth_(parser.depth_) {
    constexpr int kLevelsPerNesting = 3;  // of the grammar, that count themselves
    if (++depth_ > kLevelsPerNesting * kMaxExpressionHeight) {
      const int line = parser.stream_.line();
      --depth_;
      fail_at(line, fmt::format("an expression nested more than {} deep", kMaxExpressionHeight));
    }
  }
  ~Descent() { --depth_; }

 private:
  int& depth_;
};

}  // namespace rafter::text::jinja
