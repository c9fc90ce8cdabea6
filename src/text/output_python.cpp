#include "text/output_python.h"

#include "base/utf8.h"

namespace rafter::text::output {
namespace {

constexpr size_t kMostWordBytes = 4096;

Reading read_hex(Source& in, int digits, char32_t& unit) {
  unit = 0;
  for (int i = 0; i < digits; ++i) {
    const int c = co_await in.next();
    if (c >= '0' && c <= '9') {
      unit = unit * 16 + static_cast<char32_t>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      unit = unit * 16 + static_cast<char32_t>((c | 0x20) - 'a' + 10);
    } else {
      throw Malformed{};
    }
  }
}

Reading copy_escape(Source& in, std::string& text) {
  const int c = co_await in.next();
  constexpr std::string_view kNamed = "nrtbfav0\\'\"", kMeaning("\n\r\t\b\f\a\v\0\\'\"", 11);
  if (const size_t at = kNamed.find(static_cast<char>(c)); c > 0 && at != std::string_view::npos) {
    text += kMeaning[at];
  } else if (c == 'x' || c == 'u' || c == 'U') {
    char32_t unit = 0;
    co_await read_hex(in, c == 'x' ? 2 : c == 'u' ? 4 : 8, unit);
    base::append_utf8(text, unit > 0x10FFFF || (unit >= 0xD800 && unit < 0xE000) ? 0xFFFD : unit);
  } else if (c != '\n') {
    throw Malformed{};
  }
}

Reading copy_python_string(Source& in, TextSink& out) {
  const int quote = co_await in.next();
  if (quote != '"' && quote != '\'') throw Malformed{};
  out.write("\"");
  for (;;) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    if (c == quote) break;
    std::string text;
    if (c == '\\') {
      co_await copy_escape(in, text);
    } else {
      text += static_cast<char>(c);
    }
    std::string escaped;
    for (const char byte : text) append_json_escaped(escaped, byte);
    out.write(escaped);
  }
  out.write("\"");
}

Reading copy_python_word(Source& in, TextSink& out) {
  std::string word;
  co_await take_word(in, " \t\r\n,:)]}", kMostWordBytes, word);
  if (word == "None") {
    word = "null";
  } else if (word == "True" || word == "False") {
    word.front() |= 0x20;
  } else if (word != "null" && word != "true" && word != "false" && !is_json_number(word)) {
    throw Malformed{};
  }
  out.write(word);
}

char closer_of(int c) { return c == '{' ? '}' : c == '[' ? ']' : c == '(' ? ')' : '\0'; }

}  // namespace

Reading copy_python(Source& in, TextSink& out) {
  std::string closers;
  bool comma = false;
  for (;;) {
    int c = co_await in.peek_visible();
    if (!closers.empty() && c == closers.back()) {
      co_await in.next();
      out.write(closers.back() == '}' ? "}" : "]");
      closers.pop_back();
      comma = false;
    } else {
      if (comma) out.write(",");
      comma = false;
      if (!closers.empty() && closers.back() == '}') {
        co_await copy_python_string(in, out);
        co_await expect_visible(in, ":");
        out.write(":");
        c = co_await in.peek_visible();
      }
      if (const char closer = c > 0 ? closer_of(c) : '\0'; closer != '\0') {
        if (closers.size() == kMaxJsonNesting) throw Malformed{};
        co_await in.next();
        out.write(c == '{' ? "{" : "[");
        closers += closer;
        continue;
      }
      if (c == '"' || c == '\'') {
        co_await copy_python_string(in, out);
      } else {
        co_await copy_python_word(in, out);
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

std::optional<std::string> json_of_python(std::string_view text) {
  Source source;
  StringSink sink;
  const Reading reading = copy_python(source, sink);
  try {
    source.start(reading);
    source.push(text);
    source.finish();
  } catch (const Malformed&) {
    return std::nullopt;
  }
  if (source.has_bytes()) return std::nullopt;
  return std::move(sink.text);
}

}  // namespace rafter::text::output
