// MiniCPM5: <function name="NAME"><param name="KEY">VALUE</param></function>. A value is plain text, whose
// entities are decoded and whose ends are trimmed, or one or more CDATA sections, which are literal; the
// schema types it.
#include "base/utf8.h"
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

constexpr size_t kMostEntityBytes = 10;  // of what stands between & and ;

// The character that an entity names; empty if it is none.
std::string decode_entity(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"lt", "<"}, {"gt", ">"}, {"amp", "&"}, {"quot", "\""}, {"apos", "'"}};
  for (const auto& [known, meaning] : kNamed) {
    if (name == known) return std::string(meaning);
  }
  if (!name.starts_with('#') || name.size() < 2) return {};
  const bool is_hex = name[1] == 'x' || name[1] == 'X';
  char32_t code_point = 0;
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9'                               ? c - '0'
                      : is_hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                         : -1;
    if (digit < 0 || code_point > 0x10FFFF) return {};
    code_point = code_point * (is_hex ? 16 : 10) + static_cast<char32_t>(digit);
  }
  if (digits.empty() || code_point == 0 || code_point > 0x10FFFF ||
      (code_point >= 0xD800 && code_point < 0xE000))
    return {};
  std::string text;
  base::append_utf8(text, code_point);
  return text;
}

// What follows an ampersand, as text: an entity's character, or the bytes themselves.
Reading read_entity(Source& in, std::string& text) {
  std::string name;
  for (;;) {
    const int c = co_await in.peek();
    const bool belongs = c == '#' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (c == ';' && !(text = decode_entity(name)).empty()) {
      co_await in.next();
      co_return;
    }
    if (!belongs || name.size() == kMostEntityBytes) break;
    name += static_cast<char>(c);
    co_await in.next();
  }
  text = "&" + name;
}

// The rest of </param> behind its `<`, which is taken: `text` stays empty if it is all there, and is what was
// taken otherwise.
Reading read_closing_tag(Source& in, std::string& text) {
  text = "<";
  for (const char expected : std::string_view("/param>")) {
    const int c = co_await in.peek();
    if (c != expected) co_return;
    text += expected;
    co_await in.next();
  }
  text.clear();
}

// A plain value to behind </param>, its ends trimmed. `begin`: what was taken of it.
Reading read_plain(Source& in, TextValue& value, std::string begin) {
  std::string space;  // that may be the value's end
  value.write(begin);
  for (;;) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    if (is_space(c)) {
      space += static_cast<char>(c);
      continue;
    }
    std::string text(1, static_cast<char>(c));
    if (c == '&') co_await read_entity(in, text);
    if (c == '<') co_await read_closing_tag(in, text);
    if (text.empty()) co_return;
    value.write(std::exchange(space, {}));
    value.write(text);
  }
}

// The text of a CDATA section up to its `]]>`, which is taken.
Reading read_cdata(Source& in, TextValue& value) {
  std::string tail;  // brackets that may belong to the end
  for (;;) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    if (c == '>' && tail.size() == 2) co_return;
    if (c == ']' && tail.size() == 2) {
      value.write("]");
    } else if (c == ']') {
      tail += ']';
    } else {
      value.write(std::exchange(tail, {}));
      const char byte = static_cast<char>(c);
      value.write({&byte, 1});
    }
  }
}

// CDATA sections from behind the first `<` to behind </param>.
Reading read_cdata_sections(Source& in, TextValue& value) {
  for (int c = '!'; c == '!'; c = co_await in.peek()) {
    co_await expect(in, "![CDATA[");
    co_await read_cdata(in, value);
    co_await expect_visible(in, "<");
  }
  co_await expect(in, "/param>");
}

// From behind <param name="KEY"> to behind </param>.
Reading read_value(Source& in, TextValue& value) {
  int c = co_await in.peek_visible();
  std::string begin;
  if (c == '<') {
    co_await in.next();
    c = co_await in.peek();
    if (c == '!') {
      co_await read_cdata_sections(in, value);
      co_return;
    }
    co_await read_closing_tag(in, begin);
    if (begin.empty()) co_return;
  }
  co_await read_plain(in, value, begin);
}

// From behind <function name=" to behind </function>.
Reading read_call(CallContext& context) {
  Source& in = context.in;
  std::string name;
  co_await take_word(in, "\"<>", kMostNameBytes, name);
  co_await expect(in, "\">");
  context.calls.begin(name);
  const ArgumentSchema anything;
  const ArgumentSchema* schema = context.calls.schema() ? context.calls.schema() : &anything;
  std::optional<MemberWriter> members;
  for (;;) {
    co_await expect_visible(in, "<");
    const int c = co_await in.peek();
    if (c == '/') break;
    std::string key;
    co_await expect(in, "param name=\"");
    co_await take_word(in, "\"<>", kMostNameBytes, key);
    co_await expect(in, "\">");
    if (!members) members.emplace(context.calls);
    members->key(key);
    TextValue value(context.calls, schema->property(key));
    co_await read_value(in, value);
    value.close();
  }
  co_await expect(in, "/function>");
  if (members) members->close();
  context.calls.end();
}

bool recognises(std::string_view source) {
  return contains(source, "<function name=\"") || contains(source, "<function name=\\\"");
}

}  // namespace

const Family kMiniCpm5{.name = "minicpm5",
                       .recognises = recognises,
                       .openers = {{"<function name=\"", read_call}},
                       .special_tokens = {"<function", "</function>", "<param", "</param>"}};

}  // namespace rafter::text::output
