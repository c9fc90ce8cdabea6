// Parts of expressions that follow a value (attributes, calls, filters, tests), targets, and the helpers of
// jinja_parser_nodes.h.
#include <algorithm>
#include <set>

#include "text/jinja_parser.h"
#include "text/jinja_parser_nodes.h"

namespace rafter::text::jinja {

void fail_at(int line, std::string message) { throw Failure{FailureKind::syntax, std::move(message), line}; }

void raise_height(Expression& parent, const ExpressionPtr& child) {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxExpressionHeight) {
    fail_at(parent.line, fmt::format("an expression nested more than {} deep", kMaxExpressionHeight));
  }
}

ExpressionPtr make_unary(UnaryOperator operation, ExpressionPtr operand, int line) {
  auto node = std::make_unique<Unary>(operation, line);
  node->operand = std::move(operand);
  raise_height(*node, node->operand);
  return node;
}

Value integer_literal(const Token& token) {
  const std::string& digits = token.text;
  if (digits.find_first_not_of("0123456789") == std::string::npos) {
    int64_t value = 0;
    for (char c : digits) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, c - '0', &value)) {
        return Value::from(std::shared_ptr<Object>(std::make_shared<BigInteger>(digits)));
      }
    }
    return Value::integer(value);
  }
  const char letter = static_cast<char>(digits[1] | 0x20);
  const int64_t base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
  int64_t value = 0;
  for (char c : digits.substr(2)) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)) {
      fail_at(token.line, "an integer literal outside 64 bits");
    }
  }
  return Value::integer(value);
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  while (true) {
    if (stream_.at(TokenType::dot)) {
      value = dotted(std::move(value));
    } else if (stream_.at(TokenType::left_bracket)) {
      value = subscript(std::move(value));
    } else if (stream_.at(TokenType::left_paren)) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (stream_.at(TokenType::pipe)) {
      value = filters(std::move(value));
    } else if (stream_.at_name("is")) {
      value = test(std::move(value));
    } else if (stream_.at(TokenType::left_paren)) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::dotted(ExpressionPtr value) {
  const int line = stream_.next().line;
  const Token& part = stream_.next();
  if (part.type == TokenType::name) {
    auto node = std::make_unique<Attribute>(line);
    node->object = std::move(value);
    node->name = part.text;
    raise_height(*node, node->object);
    return node;
  }
  if (part.type != TokenType::integer) fail_at(part.line, "expected name or number");
  auto node = std::make_unique<Item>(line);
  node->object = std::move(value);
  node->key = std::make_unique<Constant>(integer_literal(part), part.line);
  raise_height(*node, node->object);
  return node;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  const int line = stream_.next().line;
  auto slice = std::make_unique<Slice>(line);
  auto keys = std::make_unique<Display>(ExpressionKind::tuple, line);
  bool is_slice = false;
  auto bound = [&]() -> ExpressionPtr {
    const bool absent =
        stream_.at(TokenType::colon) || stream_.at(TokenType::right_bracket) || stream_.at(TokenType::comma);
    return absent ? nullptr : expression();
  };
  while (!stream_.at(TokenType::right_bracket)) {
    if (!keys->items.empty()) stream_.expect(TokenType::comma);
    ExpressionPtr first = stream_.at(TokenType::colon) ? nullptr : expression();
    if (stream_.skip_if(TokenType::colon)) {
      is_slice = true;
      slice->start = std::move(first);
      slice->stop = bound();
      if (stream_.skip_if(TokenType::colon)) slice->step = bound();
      if (!stream_.at(TokenType::right_bracket))
        fail_at(line, "several slices in one subscript are not supported");
      break;
    }
    keys->items.push_back(std::move(first));
    raise_height(*keys, keys->items.back());
  }
  stream_.expect(TokenType::right_bracket);
  if (is_slice) {
    if (!keys->items.empty()) fail_at(line, "several slices in one subscript are not supported");
    slice->object = std::move(value);
    for (const ExpressionPtr* child : {&slice->object, &slice->start, &slice->stop, &slice->step})
      raise_height(*slice, *child);
    return slice;
  }
  auto node = std::make_unique<Item>(line);
  node->object = std::move(value);
  if (keys->items.size() == 1) {
    node->key = std::move(keys->items[0]);
  } else {
    node->key = std::move(keys);
  }
  raise_height(*node, node->object);
  raise_height(*node, node->key);
  return node;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  auto node = std::make_unique<Call>(stream_.line());
  node->arguments = arguments(*node);
  node->callee = std::move(callee);
  raise_height(*node, node->callee);
  return node;
}

ArgumentList ExpressionParser::arguments(Expression& owner) {
  const int line = stream_.expect(TokenType::left_paren).line;
  ArgumentList list;
  auto ensure = [&](bool valid) {
    if (!valid) fail_at(line, "invalid syntax for function call expression");
  };
  std::set<std::string> names;
  bool needs_comma = false;
  while (!stream_.at(TokenType::right_paren)) {
    if (needs_comma) {
      stream_.expect(TokenType::comma);
      if (stream_.at(TokenType::right_paren)) break;
    }
    needs_comma = true;
    if (stream_.skip_if(TokenType::multiply)) {
      ensure(list.more_positional == nullptr && list.more_named == nullptr);
      list.more_positional = expression();
      raise_height(owner, list.more_positional);
    } else if (stream_.skip_if(TokenType::power)) {
      ensure(list.more_named == nullptr);
      list.more_named = expression();
      raise_height(owner, list.more_named);
    } else if (stream_.at(TokenType::name) && stream_.look().type == TokenType::assign) {
      ensure(list.more_named == nullptr);
      const std::string name = stream_.next().text;
      stream_.next();
      if (!names.insert(name).second) fail_at(line, fmt::format("keyword argument repeated: {}", name));
      list.named.emplace_back(name, expression());
      raise_height(owner, list.named.back().second);
    } else {
      ensure(list.more_positional == nullptr && list.more_named == nullptr && list.named.empty());
      list.positional.push_back(expression());
      raise_height(owner, list.positional.back());
    }
  }
  stream_.expect(TokenType::right_paren);
  return list;
}

std::string ExpressionParser::dotted_name() {
  std::string name = stream_.expect(TokenType::name).text;
  while (stream_.skip_if(TokenType::dot)) name += "." + stream_.expect(TokenType::name).text;
  return name;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input, bool first_is_open) {
  while (first_is_open || stream_.skip_if(TokenType::pipe)) {
    first_is_open = false;
    auto node = std::make_unique<Filter>(stream_.line());
    node->name = dotted_name();
    if (stream_.at(TokenType::left_paren)) node->arguments = arguments(*node);
    node->input = std::move(input);
    raise_height(*node, node->input);
    input = std::move(node);
  }
  return input;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const int line = stream_.next().line;
  const bool negated = stream_.skip_if_name("not");
  auto node = std::make_unique<Test>(line);
  node->name = dotted_name();
  if (stream_.at(TokenType::left_paren)) {
    node->arguments = arguments(*node);
  } else {
    const TokenType type = stream_.current().type;
    const bool value_follows = type == TokenType::name || type == TokenType::string ||
                               type == TokenType::integer || type == TokenType::real ||
                               type == TokenType::left_bracket || type == TokenType::left_brace;
    if (value_follows && !stream_.at_name("else") && !stream_.at_name("or") && !stream_.at_name("and")) {
      if (stream_.at_name("is")) fail_at(stream_.line(), "you cannot chain multiple tests with is");
      node->arguments.positional.push_back(postfix(primary()));
      raise_height(*node, node->arguments.positional.back());
    }
  }
  node->input = std::move(value);
  raise_height(*node, node->input);
  if (!negated) return node;
  return make_unary(UnaryOperator::logical_not, std::move(node), line);
}

std::string ExpressionParser::target_name() {
  const Token& token = stream_.expect(TokenType::name);
  for (std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == word) fail_at(token.line, fmt::format("can't assign to '{}'", word));
  }
  return token.text;
}

Target ExpressionParser::simple_target(bool allow_attributes) {
  Descent descent(*this);
  const int line = stream_.line();
  if (stream_.skip_if(TokenType::left_paren)) {
    Target inner = target(false);
    stream_.expect(TokenType::right_paren);
    return inner;
  }
  if (!stream_.at(TokenType::name))
    fail_at(line, fmt::format("can't assign to '{}'", describe(stream_.current())));
  Target made{Target::Kind::name, line, target_name(), {}, {}, {}};
  if (allow_attributes && stream_.skip_if(TokenType::dot)) {
    made.kind = Target::Kind::attribute;
    made.attribute = stream_.expect(TokenType::name).text;
  }
  return made;
}

Target ExpressionParser::target(bool allow_attributes) {
  Target tuple{Target::Kind::tuple, stream_.line(), {}, {}, {}, {}};
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) stream_.expect(TokenType::comma);
    if (at_tuple_end()) break;
    tuple.items.push_back(simple_target(allow_attributes));
    if (!stream_.at(TokenType::comma)) break;
    is_tuple = true;
  }
  if (!is_tuple && tuple.items.empty()) {
    fail_at(stream_.line(), fmt::format("expected an expression, got '{}'", describe(stream_.current())));
  }
  return is_tuple ? tuple : std::move(tuple.items[0]);
}

}  // namespace rafter::text::jinja
