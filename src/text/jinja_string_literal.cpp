#include "text/jinja_string_literal.h"

#include "base/utf8.h"
#include "text/jinja_failure.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A single-letter escape's character; 0 if the letter has none.
char simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return 0;
  }
}

class Unescaper {
 public:
  Unescaper(std::string_view literal, int line) : literal_(literal), line_(line) {}

  std::string run() {
    while (at_ < literal_.size()) {
      if (literal_[at_] != '\\' || at_ + 1 >= literal_.size()) {
        out_ += literal_[at_++];
      } else {
        ++at_;
        escape();
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    const char letter = literal_[at_];
    if (const char c = simple_escape(letter); c != 0) {
      out_ += c;
      ++at_;
    } else if (letter == '\n') {
      ++at_;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      hexadecimal(letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
    } else if (letter >= '0' && letter <= '7') {
      octal();
    } else if (letter == 'N') {
      throw Failure{FailureKind::syntax, "\\N escapes are not supported", line_};
    } else if (static_cast<unsigned char>(letter) >= 0x80) {
      spelled_out();
    } else {
      out_ += '\\';
    }
  }

  void add(uint32_t c) {
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
      throw Failure{FailureKind::syntax, "an escape that is not a Unicode character", line_};
    }
    base::append_utf8(out_, c);
  }

  void hexadecimal(int digits) {
    ++at_;
    uint32_t c = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int value = at_ < literal_.size() ? hex_value(literal_[at_]) : -1;
      if (value < 0) throw Failure{FailureKind::syntax, "truncated \\x, \\u or \\U escape", line_};
      c = c << 4 | static_cast<uint32_t>(value);
    }
    add(c);
  }

  void octal() {
    uint32_t c = 0;
    for (int i = 0; i < 3 && at_ < literal_.size() && literal_[at_] >= '0' && literal_[at_] <= '7';
         ++i, ++at_) {
      c = c * 8 + static_cast<uint32_t>(literal_[at_] - '0');
    }
    add(c);
  }

  // Python turns what is beyond ASCII into escapes before it reads any, so a backslash in front of such a
  // character escapes that escape's backslash: "\é" is the four characters \xe9.
  void spelled_out() {
    char32_t c;
    CodePoints points(literal_.substr(at_));
    points.next(c);
    const auto value = static_cast<uint32_t>(c);
    out_ += value < 0x100     ? fmt::format("\\x{:02x}", value)
            : value < 0x10000 ? fmt::format("\\u{:04x}", value)
                              : fmt::format("\\U{:08x}", value);
    at_ += points.end();
  }

  std::string_view literal_;
  int line_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape_string_literal(std::string_view literal, int line) {
  return Unescaper(literal, line).run();
}

}  // namespace rafter::text::jinja
