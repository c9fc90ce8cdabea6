// JSON as a stream: read once, written compactly while it comes. For implementation files of
// text/output_*.cpp only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/output_reading.h"

namespace rafter::text::output {

// Where text goes as it comes.
class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void write(std::string_view text) = 0;
};

// Into a string; more than `most` bytes are Malformed.
class StringSink : public TextSink {
 public:
  explicit StringSink(size_t most = std::string::npos) : most_(most) {}
  void write(std::string_view bytes) override {
    if (bytes.size() > most_ - text.size()) throw Malformed{};
    text += bytes;
  }
  std::string text;

 private:
  size_t most_;
};

enum class JsonRules {
  strict,    // RFC 8259
  tolerant,  // also a comma before a closing bracket, and raw control characters in strings
};

inline constexpr size_t kMaxJsonNesting = 256;

// Copies one JSON value from `in` to `out`: without white space, characters unescaped where JSON lets them
// be, lone surrogates as U+FFFD, numbers as they were written, keys in their order. White space in front of
// the value is skipped; nothing behind it is taken. Malformed where it is none, or nested more than
// kMaxJsonNesting deep.
Reading copy_json(Source& in, TextSink& out, JsonRules rules = JsonRules::tolerant);

// A JSON string from its opening to its closing quote; `text` is what it says.
Reading read_json_string(Source& in, size_t most, std::string& text);

// `text` as one JSON value and nothing but white space around it, compact; or nothing.
std::optional<std::string> compact_json(std::string_view text, JsonRules rules);

// Appends one byte of a string's text as JSON writes it. Bytes of UTF-8 pass.
void append_json_escaped(std::string& out, char byte);
// `text` between quotes.
std::string json_quoted(std::string_view text);

// A number as JSON writes it.
bool is_json_number(std::string_view text);

}  // namespace rafter::text::output
