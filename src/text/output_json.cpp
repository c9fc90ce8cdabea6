#include "text/output_json.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace rafter::text::output {
namespace {

constexpr size_t kMostNumberBytes = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Reading read_four_hex(Source& in, char32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    const int c = co_await in.next();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) throw Malformed{};
    unit = unit * 16 + static_cast<char32_t>(digit);
  }
}

char named_escape(int c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '/':
      return static_cast<char>(c);
    default:
      throw Malformed{};
  }
}

// What a JSON string says, byte by byte or character by character, behind its opening quote, with the closing
// one taken.
Reading copy_string_text(Source& in, TextSink& plain, JsonRules rules) {
  char32_t high = 0;  // a high surrogate whose other half must follow
  for (;;) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    int escape = 0;
    char32_t unit = 0;
    if (c == '\\') {
      escape = co_await in.next();
      if (escape == 'u') co_await read_four_hex(in, unit);
    }
    const bool is_low = escape == 'u' && unit >= 0xDC00 && unit < 0xE000;
    std::string text;
    if (high != 0 && !is_low) base::append_utf8(text, 0xFFFD);
    if (escape == 'u') {
      if (is_low) {
        base::append_utf8(text, high != 0 ? 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00) : 0xFFFD);
      } else if (unit < 0xD800 || unit >= 0xE000) {
        base::append_utf8(text, unit);
      }
    } else if (escape != 0) {
      text += named_escape(escape);
    } else if (c != '"') {
      if (c < 0x20 && rules == JsonRules::strict) throw Malformed{};
      text += static_cast<char>(c);
    }
    high = escape == 'u' && unit >= 0xD800 && unit < 0xDC00 ? unit : 0;
    if (!text.empty()) plain.write(text);
    if (escape == 0 && c == '"') co_return;
  }
}

class EscapingSink : public TextSink {
 public:
  explicit EscapingSink(TextSink& out) : out_(out) {}
  void write(std::string_view text) override {
    std::string escaped;
    for (const char byte : text) append_json_escaped(escaped, byte);
    out_.write(escaped);
  }

 private:
  TextSink& out_;
};

Reading copy_json_string(Source& in, TextSink& out, JsonRules rules) {
  co_await expect(in, "\"");
  out.write("\"");
  EscapingSink escaping(out);
  co_await copy_string_text(in, escaping, rules);
  out.write("\"");
}

bool is_word_byte(int c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
         c == '.';
}

// A number, true, false or null.
Reading copy_json_word(Source& in, TextSink& out) {
  std::string word;
  for (;;) {
    const int c = co_await in.peek();
    if (!is_word_byte(c)) break;
    if (word.size() == kMostNumberBytes) throw Malformed{};
    word += static_cast<char>(c);
    co_await in.next();
  }
  if (word != "true" && word != "false" && word != "null" && !is_json_number(word)) throw Malformed{};
  out.write(word);
}

Reading copy_whole_document(Source& in, TextSink& out, JsonRules rules) {
  co_await copy_json(in, out, rules);
  const int c = co_await in.peek_visible();
  if (c != Source::kEnd) throw Malformed{};
}

}  // namespace

Reading copy_json(Source& in, TextSink& out, JsonRules rules) {
  std::string closers;  // of the objects and arrays around, outermost first
  bool comma = false;   // taken and not yet written
  for (;;) {
    int c = co_await in.peek_visible();
    if (!closers.empty() && c == closers.back() && (!comma || rules == JsonRules::tolerant)) {
      co_await in.next();
      out.write({&closers.back(), 1});
      closers.pop_back();
      comma = false;
    } else {
      if (comma) out.write(",");
      comma = false;
      if (!closers.empty() && closers.back() == '}') {
        co_await copy_json_string(in, out, rules);
        co_await expect_visible(in, ":");
        out.write(":");
        c = co_await in.peek_visible();
      }
      if (c == '{' || c == '[') {
        if (closers.size() == kMaxJsonNesting) throw Malformed{};
        co_await in.next();
        out.write(c == '{' ? "{" : "[");
        closers += c == '{' ? '}' : ']';
        continue;
      }
      if (c == '"') {
        co_await copy_json_string(in, out, rules);
      } else {
        co_await copy_json_word(in, out);
      }
    }
    if (closers.empty()) co_return;
    c = co_await in.peek_visible();
    if (c == ',') {
      co_await in.next();
      comma = true;
    } else if (c != closers.back()) {
      throw Malformed{};
    }
  }
}

Reading read_json_string(Source& in, size_t most, std::string& text) {
  StringSink sink(most);
  co_await expect(in, "\"");
  co_await copy_string_text(in, sink, JsonRules::tolerant);
  text = std::move(sink.text);
}

std::optional<std::string> compact_json(std::string_view text, JsonRules rules) {
  Source source;
  StringSink sink;
  const Reading reading = copy_whole_document(source, sink, rules);
  try {
    source.start(reading);
    source.push(text);
    source.finish();
  } catch (const Malformed&) {
    return std::nullopt;
  }
  return std::move(sink.text);
}

void append_json_escaped(std::string& out, char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      if (static_cast<unsigned char>(byte) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned char>(byte));
      } else {
        out += byte;
      }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char byte : text) append_json_escaped(out, byte);
  return out + "\"";
}

bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool leading_zero = at < text.size() && text[at] == '0';
  if (leading_zero) {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

}  // namespace rafter::text::output
