#include <algorithm>

#include "text/jinja_number.h"
#include "text/jinja_parser.h"

namespace rafter::text::jinja {
namespace {

[[noreturn]] void fail_at(int line, std::string message) {
  throw Failure{FailureKind::syntax, std::move(message), line};
}

// Makes `child` a child of `parent` as far as height goes.
void raise(Expression& parent, const ExpressionPtr& child) {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxExpressionHeight) {
    fail_at(parent.line, fmt::format("an expression nested more than {} deep", kMaxExpressionHeight));
  }
}

template <typename Node>
ExpressionPtr binary(std::unique_ptr<Node> node, ExpressionPtr left, ExpressionPtr right) {
  node->left = std::move(left);
  node->right = std::move(right);
  raise(*node, node->left);
  raise(*node, node->right);
  return node;
}

ExpressionPtr unary_node(UnaryOperator operation, ExpressionPtr operand, int line) {
  auto node = std::make_unique<Unary>(operation, line);
  node->operand = std::move(operand);
  raise(*node, node->operand);
  return node;
}

std::optional<CompareOperator> compare_operator(TokenType type) {
  switch (type) {
    case TokenType::equal:
      return CompareOperator::equal;
    case TokenType::not_equal:
      return CompareOperator::not_equal;
    case TokenType::less:
      return CompareOperator::less;
    case TokenType::less_equal:
      return CompareOperator::less_equal;
    case TokenType::greater:
      return CompareOperator::greater;
    case TokenType::greater_equal:
      return CompareOperator::greater_equal;
    default:
      return std::nullopt;
  }
}

std::optional<BinaryOperator> product_operator(TokenType type) {
  switch (type) {
    case TokenType::multiply:
      return BinaryOperator::multiply;
    case TokenType::divide:
      return BinaryOperator::divide;
    case TokenType::floor_divide:
      return BinaryOperator::floor_divide;
    case TokenType::modulo:
      return BinaryOperator::modulo;
    default:
      return std::nullopt;
  }
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

Value trusted_string(std::string_view text) { return Value::string(text, Origin::trusted); }

}  // namespace

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

ExpressionPtr ExpressionParser::expression(Mode mode) {
  Descent descent(*this);
  return mode == Mode::full ? conditional() : logic_or();
}

ExpressionPtr ExpressionParser::conditional() {
  Descent descent(*this);
  int line = stream_.line();
  ExpressionPtr value = logic_or();
  while (stream_.skip_if_name("if")) {
    auto node = std::make_unique<Conditional>(line);
    node->then = std::move(value);
    node->condition = logic_or();
    if (stream_.skip_if_name("else")) node->otherwise = conditional();
    raise(*node, node->then);
    raise(*node, node->condition);
    raise(*node, node->otherwise);
    value = std::move(node);
    line = stream_.line();
  }
  return value;
}

ExpressionPtr ExpressionParser::logic_or() {
  int line = stream_.line();
  ExpressionPtr left = logic_and();
  while (stream_.skip_if_name("or")) {
    left = binary(std::make_unique<Logic>(true, line), std::move(left), logic_and());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::logic_and() {
  int line = stream_.line();
  ExpressionPtr left = logic_not();
  while (stream_.skip_if_name("and")) {
    left = binary(std::make_unique<Logic>(false, line), std::move(left), logic_not());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::logic_not() {
  if (!stream_.at_name("not")) return comparison();
  Descent descent(*this);
  const int line = stream_.next().line;
  return unary_node(UnaryOperator::logical_not, logic_not(), line);
}

ExpressionPtr ExpressionParser::comparison() {
  auto node = std::make_unique<Compare>(stream_.line());
  node->first = sum();
  while (true) {
    auto operation = compare_operator(stream_.current().type);
    if (operation) {
      stream_.next();
    } else if (stream_.skip_if_name("in")) {
      operation = CompareOperator::in;
    } else if (stream_.at_name("not") && TokenStream::is_name(stream_.look(), "in")) {
      stream_.next();
      stream_.next();
      operation = CompareOperator::not_in;
    } else {
      break;
    }
    node->rest.emplace_back(*operation, sum());
    raise(*node, node->rest.back().second);
  }
  if (node->rest.empty()) return std::move(node->first);
  raise(*node, node->first);
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  int line = stream_.line();
  ExpressionPtr left = concatenation();
  while (stream_.at(TokenType::add) || stream_.at(TokenType::subtract)) {
    const bool adds = stream_.next().type == TokenType::add;
    auto node = std::make_unique<Binary>(adds ? BinaryOperator::add : BinaryOperator::subtract, line);
    left = binary(std::move(node), std::move(left), concatenation());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  auto node = std::make_unique<Concat>(stream_.line());
  node->parts.push_back(product());
  while (stream_.skip_if(TokenType::tilde)) node->parts.push_back(product());
  if (node->parts.size() == 1) return std::move(node->parts[0]);
  for (const ExpressionPtr& part : node->parts) raise(*node, part);
  return node;
}

ExpressionPtr ExpressionParser::product() {
  int line = stream_.line();
  ExpressionPtr left = power();
  while (auto operation = product_operator(stream_.current().type)) {
    stream_.next();
    left = binary(std::make_unique<Binary>(*operation, line), std::move(left), power());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  int line = stream_.line();
  ExpressionPtr left = unary(true);
  while (stream_.skip_if(TokenType::power)) {  // to the left, unlike Python
    left = binary(std::make_unique<Binary>(BinaryOperator::power, line), std::move(left), unary(true));
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  Descent descent(*this);
  ExpressionPtr value;
  if (stream_.at(TokenType::subtract) || stream_.at(TokenType::add)) {
    const Token& sign = stream_.next();
    const auto operation = sign.type == TokenType::add ? UnaryOperator::positive : UnaryOperator::negative;
    const int line = sign.line;
    value = unary_node(operation, unary(false), line);
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const int line = stream_.line();
  switch (stream_.current().type) {
    case TokenType::name:
      return name_or_literal();
    case TokenType::string: {
      std::string text = stream_.next().text;
      while (stream_.at(TokenType::string)) text += stream_.next().text;
      return std::make_unique<Constant>(trusted_string(text), line);
    }
    case TokenType::integer:
      return std::make_unique<Constant>(integer_literal(stream_.next()), line);
    case TokenType::real:
      return std::make_unique<Constant>(Value::real(real_from_digits(stream_.next().text)), line);
    case TokenType::left_paren: {
      stream_.next();
      ExpressionPtr inner = expression_or_tuple(Mode::full, true);
      stream_.expect(TokenType::right_paren);
      return inner;
    }
    case TokenType::left_bracket:
      return list_display();
    case TokenType::left_brace:
      return dict_display();
    default:
      fail_at(line, fmt::format("unexpected '{}'", describe(stream_.current())));
  }
}

ExpressionPtr ExpressionParser::name_or_literal() {
  const Token& token = stream_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return std::make_unique<Constant>(Value::boolean(name[0] == 't' || name[0] == 'T'), token.line);
  }
  if (name == "none" || name == "None") return std::make_unique<Constant>(Value(), token.line);
  return std::make_unique<Name>(name, token.line);
}

ExpressionPtr ExpressionParser::list_display() {
  auto node = std::make_unique<Display>(ExpressionKind::list, stream_.next().line);
  while (!stream_.at(TokenType::right_bracket)) {
    if (!node->items.empty()) stream_.expect(TokenType::comma);
    if (stream_.at(TokenType::right_bracket)) break;
    node->items.push_back(expression());
    raise(*node, node->items.back());
  }
  stream_.expect(TokenType::right_bracket);
  return node;
}

ExpressionPtr ExpressionParser::dict_display() {
  auto node = std::make_unique<DictDisplay>(stream_.next().line);
  while (!stream_.at(TokenType::right_brace)) {
    if (!node->items.empty()) stream_.expect(TokenType::comma);
    if (stream_.at(TokenType::right_brace)) break;
    ExpressionPtr key = expression();
    stream_.expect(TokenType::colon);
    node->items.emplace_back(std::move(key), expression());
    raise(*node, node->items.back().first);
    raise(*node, node->items.back().second);
  }
  stream_.expect(TokenType::right_brace);
  return node;
}

bool ExpressionParser::at_tuple_end() const {
  return stream_.at(TokenType::variable_end) || stream_.at(TokenType::block_end) ||
         stream_.at(TokenType::right_paren);
}

ExpressionPtr ExpressionParser::expression_or_tuple(Mode mode, bool in_parens) {
  auto node = std::make_unique<Display>(ExpressionKind::tuple, stream_.line());
  bool is_tuple = false;
  while (true) {
    if (!node->items.empty()) stream_.expect(TokenType::comma);
    if (at_tuple_end()) break;
    node->items.push_back(expression(mode));
    raise(*node, node->items.back());
    if (!stream_.at(TokenType::comma)) break;
    is_tuple = true;
  }
  if (is_tuple) return node;
  if (!node->items.empty()) return std::move(node->items[0]);
  if (!in_parens) {
    fail_at(stream_.line(), fmt::format("expected an expression, got '{}'", describe(stream_.current())));
  }
  return node;
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
    raise(*node, node->object);
    return node;
  }
  if (part.type != TokenType::integer) fail_at(part.line, "expected name or number");
  auto node = std::make_unique<Item>(line);
  node->object = std::move(value);
  node->key = std::make_unique<Constant>(integer_literal(part), part.line);
  raise(*node, node->object);
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
    raise(*keys, keys->items.back());
  }
  stream_.expect(TokenType::right_bracket);
  if (is_slice) {
    if (!keys->items.empty()) fail_at(line, "several slices in one subscript are not supported");
    slice->object = std::move(value);
    for (const ExpressionPtr* child : {&slice->object, &slice->start, &slice->stop, &slice->step})
      raise(*slice, *child);
    return slice;
  }
  auto node = std::make_unique<Item>(line);
  node->object = std::move(value);
  if (keys->items.size() == 1) {
    node->key = std::move(keys->items[0]);
  } else {
    node->key = std::move(keys);
  }
  raise(*node, node->object);
  raise(*node, node->key);
  return node;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  auto node = std::make_unique<Call>(stream_.line());
  node->arguments = arguments(*node);
  node->callee = std::move(callee);
  raise(*node, node->callee);
  return node;
}

ArgumentList ExpressionParser::arguments(Expression& owner) {
  const int line = stream_.expect(TokenType::left_paren).line;
  ArgumentList list;
  auto ensure = [&](bool valid) {
    if (!valid) fail_at(line, "invalid syntax for function call expression");
  };
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
      raise(owner, list.more_positional);
    } else if (stream_.skip_if(TokenType::power)) {
      ensure(list.more_named == nullptr);
      list.more_named = expression();
      raise(owner, list.more_named);
    } else if (stream_.at(TokenType::name) && stream_.look().type == TokenType::assign) {
      ensure(list.more_named == nullptr);
      const std::string name = stream_.next().text;
      stream_.next();
      for (const auto& [known, value] : list.named) {
        if (known == name) fail_at(line, fmt::format("keyword argument repeated: {}", name));
      }
      list.named.emplace_back(name, expression());
      raise(owner, list.named.back().second);
    } else {
      ensure(list.more_positional == nullptr && list.more_named == nullptr && list.named.empty());
      list.positional.push_back(expression());
      raise(owner, list.positional.back());
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
    raise(*node, node->input);
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
      raise(*node, node->arguments.positional.back());
    }
  }
  node->input = std::move(value);
  raise(*node, node->input);
  if (!negated) return node;
  return unary_node(UnaryOperator::logical_not, std::move(node), line);
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
