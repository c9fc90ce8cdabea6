#include <algorithm>
#include <set>

#include "text/jinja_failure.h"
#include "text/jinja_parser.h"
#include "text/jinja_parser_nodes.h"
#include "text/jinja_scope.h"

namespace rafter::text::jinja {
namespace {

std::string join_tags(const std::vector<std::string_view>& tags) {
  std::string joined;
  for (std::string_view tag : tags) joined += fmt::format("{}'{}'", joined.empty() ? "" : " or ", tag);
  return joined;
}

}  // namespace

bool TokenStream::skip_if(TokenType type) {
  if (!at(type)) return false;
  next();
  return true;
}

bool TokenStream::skip_if_name(std::string_view name) {
  if (!at_name(name)) return false;
  next();
  return true;
}

const Token& TokenStream::expect(TokenType type) {
  if (!at(type)) {
    if (at(TokenType::end))
      fail_at(line(), fmt::format("unexpected end of template, expected '{}'", describe(type)));
    fail_at(line(), fmt::format("expected token '{}', got '{}'", describe(type), describe(current())));
  }
  return next();
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_if_name(name)) fail_at(line(), fmt::format("expected '{}', got '{}'", name, describe(current())));
}

Body StatementParser::whole_template() { return until({}); }

bool StatementParser::at_end_tag(const std::vector<std::string_view>& end_tags) const {
  return std::any_of(end_tags.begin(), end_tags.end(),
                     [&](std::string_view tag) { return stream_.at_name(tag); });
}

void StatementParser::fail_unclosed() {
  std::string message = "unexpected end of template";
  if (!end_tags_.empty()) message += fmt::format(": looking for {}", join_tags(end_tags_.back()));
  if (!open_tags_.empty()) message += fmt::format("; the innermost open block is '{}'", open_tags_.back());
  fail_at(stream_.line(), std::move(message));
}

void StatementParser::fail_unknown_tag() {
  std::string message = fmt::format("unknown tag '{}'", stream_.current().text);
  if (!end_tags_.empty()) message += fmt::format(": looking for {}", join_tags(end_tags_.back()));
  fail_at(stream_.line(), std::move(message));
}

// Text, prints and statements up to one of the end tags, which is left as the current token; up to the end of
// the template if there are none.
Body StatementParser::until(const std::vector<std::string_view>& end_tags) {
  if (!end_tags.empty()) end_tags_.push_back(end_tags);
  if (static_cast<int>(end_tags_.size()) > kMaxStatementDepth) {
    fail_at(stream_.line(), fmt::format("statements nested more than {} deep", kMaxStatementDepth));
  }
  Body body;
  std::unique_ptr<Output> output;
  auto add = [&](ExpressionPtr part) {
    if (output == nullptr) output = std::make_unique<Output>(part->line);
    output->parts.push_back(std::move(part));
  };
  while (!stream_.at(TokenType::end)) {
    const Token& token = stream_.current();
    if (token.type == TokenType::data) {
      add(std::make_unique<Constant>(Value::string(token.text, Origin::trusted), token.line));
      stream_.next();
    } else if (token.type == TokenType::variable_begin) {
      stream_.next();
      add(expressions_.expression_or_tuple());
      stream_.expect(TokenType::variable_end);
    } else {
      if (output != nullptr) body.push_back(std::move(output));
      output = nullptr;
      stream_.next();
      if (at_end_tag(end_tags)) {
        end_tags_.pop_back();
        return body;
      }
      body.push_back(statement());
      stream_.expect(TokenType::block_end);
    }
  }
  if (!end_tags.empty()) fail_unclosed();
  if (output != nullptr) body.push_back(std::move(output));
  return body;
}

Body StatementParser::tag_body(const std::vector<std::string_view>& end_tags) {
  stream_.skip_if(TokenType::colon);  // as Python writers are wont to
  stream_.expect(TokenType::block_end);
  return until(end_tags);
}

Body StatementParser::tag_body_and_end(std::string_view end_tag) {
  Body body = tag_body({end_tag});
  stream_.next();
  return body;
}

StatementPtr StatementParser::statement() {
  struct Tag {
    std::string_view name;
    StatementPtr (StatementParser::*parse)();
  };
  static constexpr Tag kTags[] = {
      {"for", &StatementParser::for_loop},
      {"if", &StatementParser::if_chain},
      {"set", &StatementParser::set},
      {"macro", &StatementParser::macro},
      {"call", &StatementParser::call_block},
      {"filter", &StatementParser::filter_block},
      {"with", &StatementParser::with},
      {"generation", &StatementParser::generation},
      {"block", &StatementParser::block},
      {"print", &StatementParser::print},
      {"break", &StatementParser::loop_control},
      {"continue", &StatementParser::loop_control},
      {"include", &StatementParser::include},
      {"extends", &StatementParser::include},
      {"import", &StatementParser::import},
      {"from", &StatementParser::from_import},
  };
  if (!stream_.at(TokenType::name)) fail_at(stream_.line(), "tag name expected");
  const std::string& name = stream_.current().text;
  if (name == "autoescape") fail_at(stream_.line(), "the tag 'autoescape' is not supported");
  for (const Tag& tag : kTags) {
    if (tag.name != name) continue;
    open_tags_.push_back(name);
    StatementPtr made = (this->*tag.parse)();
    open_tags_.pop_back();
    return made;
  }
  fail_unknown_tag();
}

StatementPtr StatementParser::for_loop() {
  auto node = std::make_unique<For>(stream_.next().line);
  node->target = expressions_.target(false);
  stream_.expect_name("in");
  node->items = expressions_.expression_or_tuple(ExpressionParser::Mode::no_conditional);
  if (stream_.skip_if_name("if")) node->condition = expressions_.expression();
  node->recursive = stream_.skip_if_name("recursive");
  node->body = tag_body({"endfor", "else"});
  if (stream_.next().text == "else") node->otherwise = tag_body_and_end("endfor");
  return node;
}

StatementPtr StatementParser::if_chain() {
  auto node = std::make_unique<If>(stream_.next().line);
  while (true) {
    ExpressionPtr condition = expressions_.expression_or_tuple(ExpressionParser::Mode::no_conditional);
    node->branches.emplace_back(std::move(condition), tag_body({"elif", "else", "endif"}));
    const std::string& tag = stream_.next().text;
    if (tag == "elif") continue;
    if (tag == "else") node->otherwise = tag_body_and_end("endif");
    return node;
  }
}

StatementPtr StatementParser::set() {
  const int line = stream_.next().line;
  Target target = expressions_.target(true);
  if (stream_.skip_if(TokenType::assign)) {
    auto node = std::make_unique<Set>(line);
    node->target = std::move(target);
    node->value = expressions_.expression_or_tuple();
    return node;
  }
  auto node = std::make_unique<SetBlock>(line);
  node->target = std::move(target);
  node->filter = expressions_.filters(nullptr);
  node->body = tag_body_and_end("endset");
  return node;
}

void StatementParser::signature(MacroPlan& plan) {
  stream_.expect(TokenType::left_paren);
  std::set<std::string> names;
  while (!stream_.at(TokenType::right_paren)) {
    if (!plan.parameters.empty()) stream_.expect(TokenType::comma);
    const int line = stream_.line();
    Parameter parameter{expressions_.target_name(), nullptr, 0};
    if (!names.insert(parameter.name).second)
      fail_at(line, fmt::format("duplicate argument '{}'", parameter.name));
    if (stream_.skip_if(TokenType::assign)) {
      parameter.fallback = expressions_.expression();
    } else if (!plan.parameters.empty() && plan.parameters.back().fallback != nullptr) {
      fail_at(line, "non-default argument follows default argument");
    }
    plan.parameters.push_back(std::move(parameter));
  }
  stream_.expect(TokenType::right_paren);
}

StatementPtr StatementParser::macro() {
  auto node = std::make_unique<Macro>(stream_.next().line);
  node->plan.name = expressions_.target_name();
  signature(node->plan);
  node->plan.body = tag_body_and_end("endmacro");
  return node;
}

StatementPtr StatementParser::call_block() {
  auto node = std::make_unique<CallBlock>(stream_.next().line);
  if (stream_.at(TokenType::left_paren)) signature(node->plan);
  node->call = expressions_.expression();
  if (node->call->kind != ExpressionKind::call) fail_at(node->line, "expected call");
  node->plan.body = tag_body_and_end("endcall");
  return node;
}

StatementPtr StatementParser::filter_block() {
  auto node = std::make_unique<FilterBlock>(stream_.next().line);
  node->filter = expressions_.filters(nullptr, true);
  node->body = tag_body_and_end("endfilter");
  return node;
}

StatementPtr StatementParser::with() {
  auto node = std::make_unique<With>(stream_.next().line);
  while (!stream_.at(TokenType::block_end)) {
    if (!node->assignments.empty()) stream_.expect(TokenType::comma);
    Target target = expressions_.target(false);
    stream_.expect(TokenType::assign);
    node->assignments.emplace_back(std::move(target), expressions_.expression());
  }
  node->body = tag_body_and_end("endwith");
  return node;
}

StatementPtr StatementParser::generation() {
  auto node = std::make_unique<Generation>(stream_.next().line);
  node->plan.body = tag_body_and_end("endgeneration");
  return node;
}

StatementPtr StatementParser::block() {
  auto node = std::make_unique<Block>(stream_.next().line);
  node->name = stream_.expect(TokenType::name).text;
  if (stream_.at_name("scoped") || stream_.at_name("required")) {
    fail_at(node->line, fmt::format("'{}' blocks are not supported", stream_.current().text));
  }
  node->body = tag_body_and_end("endblock");
  stream_.skip_if_name(node->name);
  return node;
}

StatementPtr StatementParser::print() {
  auto node = std::make_unique<Output>(stream_.next().line);
  while (!stream_.at(TokenType::block_end)) {
    if (!node->parts.empty()) stream_.expect(TokenType::comma);
    node->parts.push_back(expressions_.expression());
  }
  return node;
}

StatementPtr StatementParser::loop_control() {
  const Token& token = stream_.next();
  const auto kind = token.text == "break" ? StatementKind::break_ : StatementKind::continue_;
  return std::make_unique<LoopControl>(kind, token.line);
}

void StatementParser::import_context() {
  if ((stream_.at_name("with") || stream_.at_name("without")) &&
      TokenStream::is_name(stream_.look(), "context")) {
    stream_.next();
    stream_.next();
  }
}

StatementPtr StatementParser::include() {
  auto node = std::make_unique<NoLoader>(stream_.line());
  node->tag = stream_.next().text;
  node->expressions.push_back(expressions_.expression());
  if (node->tag == "include") {
    if (stream_.at_name("ignore") && TokenStream::is_name(stream_.look(), "missing")) {
      stream_.next();
      stream_.next();
    }
    import_context();
  }
  return node;
}

StatementPtr StatementParser::import() {
  auto node = std::make_unique<NoLoader>(stream_.line());
  node->tag = stream_.next().text;
  node->expressions.push_back(expressions_.expression());
  stream_.expect_name("as");
  const int line = stream_.line();
  node->targets.push_back({Target::Kind::name, line, expressions_.target_name(), {}, {}, {}});
  import_context();
  return node;
}

StatementPtr StatementParser::from_import() {
  auto node = std::make_unique<NoLoader>(stream_.line());
  node->tag = stream_.next().text;
  node->expressions.push_back(expressions_.expression());
  stream_.expect_name("import");
  do {
    const int line = stream_.line();
    std::string name = expressions_.target_name();
    if (name.starts_with('_')) fail_at(line, "names starting with an underline can not be imported");
    if (stream_.skip_if_name("as")) name = expressions_.target_name();
    node->targets.push_back({Target::Kind::name, line, std::move(name), {}, {}, {}});
  } while (stream_.skip_if(TokenType::comma));
  import_context();
  return node;
}

Tree parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    fail(FailureKind::limit, "a template of {} bytes; {} are read at most", source.size(), kMaxTemplateBytes);
  }
  TokenStream stream(tokenize(source));
  Tree tree;
  tree.body = StatementParser(stream).whole_template();
  resolve_scopes(tree);
  return tree;
}

}  // namespace rafter::text::jinja
