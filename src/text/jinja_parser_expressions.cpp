
#include "text/jinja_number.h"
#include "text/jinja_parser.h"
#include "text/jinja_parser_nodes.h"

namespace rafter::text::jinja {
namespace {

template <typename Node>
ExpressionPtr binary(std::unique_ptr<Node> node, ExpressionPtr left, ExpressionPtr right) {
  node->left = std::move(left);
  node->right = std::move(right);
  raise_height(*node, node->left);
  raise_height(*node, node->right);
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

Value trusted_string(std::string_view text) { return Value::string(text, Origin::trusted); }

}  // namespace

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
    raise_height(*node, node->then);
    raise_height(*node, node->condition);
    raise_height(*node, node->otherwise);
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
  return make_unary(UnaryOperator::logical_not, logic_not(), line);
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
    raise_height(*node, node->rest.back().second);
  }
  if (node->rest.empty()) return std::move(node->first);
  raise_height(*node, node->first);
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
  for (const ExpressionPtr& part : node->parts) raise_height(*node, part);
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
    value = make_unary(operation, unary(false), line);
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
    raise_height(*node, node->items.back());
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
    raise_height(*node, node->items.back().first);
    raise_height(*node, node->items.back().second);
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
    raise_height(*node, node->items.back());
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

}  // namespace rafter::text::jinja
