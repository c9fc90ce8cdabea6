#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja_failure.h"
#include "text/jinja_string_literal.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

struct OperatorName {
  std::string_view text;
  TokenType type;
};

// Longer ones first.
constexpr std::array<OperatorName, 26> kOperators = {{
    {"//", TokenType::floor_divide}, {"**", TokenType::power},         {"==", TokenType::equal},
    {"!=", TokenType::not_equal},    {">=", TokenType::greater_equal}, {"<=", TokenType::less_equal},
    {"+", TokenType::add},           {"-", TokenType::subtract},       {"/", TokenType::divide},
    {"*", TokenType::multiply},      {"%", TokenType::modulo},         {"~", TokenType::tilde},
    {"[", TokenType::left_bracket},  {"]", TokenType::right_bracket},  {"(", TokenType::left_paren},
    {")", TokenType::right_paren},   {"{", TokenType::left_brace},     {"}", TokenType::right_brace},
    {">", TokenType::greater},       {"<", TokenType::less},           {"=", TokenType::assign},
    {".", TokenType::dot},           {":", TokenType::colon},          {"|", TokenType::pipe},
    {",", TokenType::comma},         {";", TokenType::semicolon},
}};

// Line ends become \n; one at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

size_t skip_spaces(std::string_view text, size_t at) {
  char32_t c;
  for (CodePoints points(text.substr(at)); points.next(c);) {
    if (!is_space(c)) return at + points.begin();
  }
  return text.size();
}

size_t without_trailing_spaces(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (text[start] & 0xC0) == 0x80) --start;
    char32_t c = 0;
    CodePoints(text.substr(start)).next(c);
    if (!is_space(c)) break;
    end = start;
  }
  return end;
}

bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) template_data();
    push(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  void push(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  [[noreturn]] void fail_here(std::string message) {
    throw Failure{FailureKind::syntax, std::move(message), line_};
  }

  // Moves on to `end`, counting lines.
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starting_ = end > at_ ? text_[end - 1] == '\n' : line_starting_;
    at_ = end;
  }

  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  // The text before a tag at `tag`, as the tag's whitespace control leaves it.
  void push_data_before(size_t tag, char control, bool may_lstrip) {
    std::string_view data = text_.substr(at_, tag - at_);
    if (control == '-') {
      data = data.substr(0, without_trailing_spaces(data));
    } else if (control != '+' && may_lstrip) {
      const size_t line_begin = data.rfind('\n') + 1;  // 0 if there is none
      const bool at_line_begin = line_begin > 0 || line_starting_;
      if (at_line_begin && line_begin < data.size() &&
          without_trailing_spaces(data.substr(line_begin)) == 0) {
        data = data.substr(0, line_begin);
      }
    }
    if (!data.empty()) push(TokenType::data, std::string(data));
    advance(tag);
  }

  void template_data() {
    size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        push(TokenType::data, std::string(text_.substr(at_)));
        return advance(text_.size());
      }
      const char kind = text_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    }
    const char kind = text_[tag + 1];
    const char next = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    const char control = next == '-' || next == '+' ? next : '\0';
    push_data_before(tag, control, kind != '{');
    const size_t inside = tag + 2 + (control != '\0' ? 1 : 0);
    if (kind == '#') {
      comment(inside);
    } else if (auto end = kind == '%' ? raw_begin_end(inside) : std::nullopt) {
      advance(*end);
      raw();
    } else {
      push(kind == '%' ? TokenType::block_begin : TokenType::variable_begin, "");
      advance(inside);
      code(kind == '%');
    }
  }

  void comment(size_t from) {
    if (from == text_.size()) return advance(from);  // an empty comment at the very end needs no closing
    const size_t close = text_.find("#}", from);
    if (close == std::string_view::npos) fail_here("missing end of comment tag");
    // A sign directly before the end belongs to it.
    const char sign = close > from ? text_[close - 1] : '\0';
    size_t end = close + 2;
    if (sign == '-') {
      end = skip_spaces(text_, end);
    } else if (sign != '+' && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    advance(end);
  }

  // If "raw %}" stands at `from`, where the raw text begins.
  std::optional<size_t> raw_begin_end(size_t from) const {
    size_t at = skip_spaces(text_, from);
    if (!text_.substr(at).starts_with("raw")) return std::nullopt;
    at = skip_spaces(text_, at + 3);
    if (text_.substr(at).starts_with("%}")) return at + 2;
    if (text_.substr(at).starts_with("-%}")) return skip_spaces(text_, at + 3);
    return std::nullopt;
  }

  void raw() {
    if (at_ == text_.size()) return;
    for (size_t tag = text_.find("{%", at_); tag != std::string_view::npos; tag = text_.find("{%", tag + 1)) {
      size_t inside = tag + 2;
      char control = '\0';
      if (inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+')) control = text_[inside++];
      inside = skip_spaces(text_, inside);
      if (!text_.substr(inside).starts_with("endraw")) continue;
      inside = skip_spaces(text_, inside + 6);
      if (auto end = block_end(inside)) {
        push_data_before(tag, control, true);
        return advance(*end);
      }
    }
    fail_here("missing end of raw directive");
  }

  // If a block's end stands at `at`, what follows it: -%} eats whitespace, %} one newline, +%} nothing.
  std::optional<size_t> block_end(size_t at) const {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with("+%}")) return at + 3;
    if (rest.starts_with("-%}")) return skip_spaces(text_, at + 3);
    if (!rest.starts_with("%}")) return std::nullopt;
    return rest.starts_with("%}\n") ? at + 3 : at + 2;
  }

  std::optional<size_t> variable_end(size_t at) const {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with("-}}")) return skip_spaces(text_, at + 3);
    if (rest.starts_with("}}")) return at + 2;
    return std::nullopt;
  }

  // The tokens of one tag, up to its end.
  void code(bool is_block) {
    std::vector<char> open;  // the closing brackets that are due
    while (at_ < text_.size()) {
      if (open.empty()) {
        if (auto end = is_block ? block_end(at_) : variable_end(at_)) {
          push(is_block ? TokenType::block_end : TokenType::variable_end, "");
          return advance(*end);
        }
      }
      const size_t after_spaces = skip_spaces(text_, at_);
      if (after_spaces != at_) {
        advance(after_spaces);
      } else if (!number() && !name() && !string()) {
        symbol(open);
      }
    }
  }

  // Digits with single `_` between them, from `at`; how far they go.
  size_t digits_end(size_t at) const {
    if (at >= text_.size() || !is_digit_byte(text_[at])) return at;
    while (at < text_.size() && (is_digit_byte(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() &&
                                                              is_digit_byte(text_[at + 1])))) {
      ++at;
    }
    return at;
  }

  // Where a float that begins here ends; nothing if it is not one.
  std::optional<size_t> real_end() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return std::nullopt;
    size_t end = digits_end(at_);
    const size_t whole = end;
    if (end < text_.size() && text_[end] == '.' && digits_end(end + 1) > end + 1) end = digits_end(end + 1);
    bool is_real = end > whole;
    if (end < text_.size() && (text_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (digits_end(exponent) > exponent) {
        end = digits_end(exponent);
        is_real = true;
      }
    }
    return is_real ? std::optional<size_t>(end) : std::nullopt;
  }

  // 0x…, 0o…, 0b…: letters and single `_`; how far they go, or nothing.
  std::optional<size_t> prefixed_end() const {
    if (at_ + 1 >= text_.size() || text_[at_] != '0') return std::nullopt;
    const char letter = static_cast<char>(text_[at_ + 1] | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base == 0) return std::nullopt;
    auto is_digit_of_base = [&](size_t i) {
      if (i >= text_.size()) return false;
      const char c = text_[i];
      return is_digit_byte(c) ? c - '0' < base : base == 16 && (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
    };
    size_t end = at_ + 2;
    while (is_digit_of_base(end) || (end < text_.size() && text_[end] == '_' && is_digit_of_base(end + 1)))
      ++end;
    return end > at_ + 2 ? std::optional<size_t>(end) : std::nullopt;
  }

  // A decimal integer; 0s and nothing else may begin with 0.
  size_t integer_end() const {
    if (text_[at_] != '0') return digits_end(at_);
    size_t end = at_ + 1;
    while (end < text_.size() &&
           (text_[end] == '0' || (text_[end] == '_' && end + 1 < text_.size() && text_[end + 1] == '0'))) {
      ++end;
    }
    return end;
  }

  bool number() {
    if (!is_digit_byte(text_[at_])) return false;
    const auto real = real_end();
    const auto prefixed = real ? std::nullopt : prefixed_end();
    const size_t end = real ? *real : prefixed ? *prefixed : integer_end();
    std::string digits(text_.substr(at_, end - at_));
    std::erase(digits, '_');
    push(real ? TokenType::real : TokenType::integer, std::move(digits));
    advance(end);
    return true;
  }

  bool name() {
    size_t end = at_;
    char32_t c;
    for (CodePoints points(text_.substr(at_)); points.next(c);) {
      if (!is_word(c) &&
          !is_identifier_mark(text_.substr(at_ + points.begin(), points.end() - points.begin())))
        break;
      end = at_ + points.end();
    }
    if (end == at_) return false;
    const std::string_view word = text_.substr(at_, end - at_);
    if (!is_identifier(word)) fail_here("invalid character in identifier");
    push(TokenType::name, std::string(word));
    advance(end);
    return true;
  }

  // Combining marks may stand inside a name.
  static bool is_identifier_mark(std::string_view c) { return is_identifier("a" + std::string(c)); }

  bool string() {
    const char quote = text_[at_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;  // left open: not a string
    push(TokenType::string, unescape_string_literal(text_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
    return true;
  }

  void symbol(std::vector<char>& open) {
    for (const OperatorName& candidate : kOperators) {
      if (!starts(candidate.text)) continue;
      const char c = candidate.text[0];
      if (c == '{' || c == '(' || c == '[') {
        open.push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
      } else if (c == '}' || c == ')' || c == ']') {
        if (open.empty()) fail_here(fmt::format("unexpected '{}'", c));
        if (open.back() != c) fail_here(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
        open.pop_back();
      }
      push(candidate.type, "");
      return advance(at_ + candidate.text.size());
    }
    char32_t c;
    CodePoints points(text_.substr(at_));
    points.next(c);
    fail_here(fmt::format("unexpected character '{}'", text_.substr(at_, points.end())));
  }

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last match ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalize(source)).run(); }

std::string describe(TokenType type) {
  for (const OperatorName& candidate : kOperators) {
    if (candidate.type == type) return std::string(candidate.text);
  }
  switch (type) {
    case TokenType::data:
      return "template data / text";
    case TokenType::block_begin:
      return "begin of statement block";
    case TokenType::block_end:
      return "end of statement block";
    case TokenType::variable_begin:
      return "begin of print statement";
    case TokenType::variable_end:
      return "end of print statement";
    case TokenType::name:
      return "name";
    case TokenType::string:
      return "string";
    case TokenType::integer:
      return "integer";
    case TokenType::real:
      return "float";
    default:
      return "end of template";
  }
}

std::string describe(const Token& token) {
  return token.type == TokenType::name ? token.text : describe(token.type);
}

}  // namespace rafter::text::jinja
