#include "text/json_characters.h"

#include <algorithm>
#include <array>
#include <span>

namespace rafter::text {
namespace {

constexpr char32_t kLastBmp = 0xFFFF;

// A place of a fixed-length code: how its digits are written, and what a digit's value is.
struct Digits {
  int count;     // values 0 … count − 1
  uint8_t base;  // UTF-8's first or following bytes: base + value; 0: a hexadecimal digit in either case
};

void add_digits(ByteGrammar& grammar, int32_t from, const Digits& digits, int low, int high, int32_t to) {
  if (digits.base != 0) {
    grammar.add_edge(from, static_cast<uint8_t>(digits.base + low), static_cast<uint8_t>(digits.base + high),
                     to);
    return;
  }
  if (low <= 9)
    grammar.add_edge(from, static_cast<uint8_t>('0' + low), static_cast<uint8_t>('0' + std::min(high, 9)),
                     to);
  if (high >= 10) {
    const int first = std::max(low, 10) - 10, last = high - 10;
    grammar.add_edge(from, static_cast<uint8_t>('a' + first), static_cast<uint8_t>('a' + last), to);
    grammar.add_edge(from, static_cast<uint8_t>('A' + first), static_cast<uint8_t>('A' + last), to);
  }
}

// Numbers from `low` to `high`, written with exactly these places, lead from a state to another.
void add_numbers(ByteGrammar& grammar, int32_t from, std::span<const Digits> places, char32_t low,
                 char32_t high, int32_t to) {
  if (places.size() == 1)
    return add_digits(grammar, from, places[0], static_cast<int>(low), static_cast<int>(high), to);
  const std::span<const Digits> rest = places.subspan(1);
  char32_t size = 1;  // numbers of the rest
  for (const Digits& place : rest) size *= static_cast<char32_t>(place.count);
  const auto through = [&](char32_t first, char32_t last, char32_t rest_low, char32_t rest_high) {
    const int32_t middle = grammar.add_state();
    add_digits(grammar, from, places[0], static_cast<int>(first), static_cast<int>(last), middle);
    add_numbers(grammar, middle, rest, rest_low, rest_high, to);
  };
  char32_t first = low / size, last = high / size;
  if (first == last) return through(first, last, low % size, high % size);
  if (low % size != 0) through(first, first, low % size, size - 1), ++first;
  const bool is_cut = high % size != size - 1;
  if (is_cut) through(last, last, 0, high % size);
  if (is_cut && last == first) return;
  if (is_cut) --last;
  if (first <= last) through(first, last, 0, size - 1);
}

struct Utf8Length {
  char32_t low, high;
  std::array<Digits, 4> places;
  size_t count;
};
constexpr Digits kFollowing{64, 0x80};
constexpr Utf8Length kUtf8Lengths[] = {
    {0x80, 0x7FF, {{{32, 0xC0}, kFollowing}}, 2},
    {0x800, 0xFFFF, {{{16, 0xE0}, kFollowing, kFollowing}}, 3},
    {0x10000, 0x10FFFF, {{{8, 0xF0}, kFollowing, kFollowing, kFollowing}}, 4}};
constexpr Digits kHex4[] = {{16, 0}, {16, 0}, {16, 0}, {16, 0}};

struct ShortEscape {
  char32_t character;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
                                         {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};

// Calls `add` with the part of each range that lies in [low, high].
template <typename Add>
void for_ranges(const CodePointSet& set, char32_t low, char32_t high, Add add) {
  for (const CodePointRange& range : set.ranges()) {
    const char32_t from = std::max(range.low, low), to = std::min(range.high, high);
    if (from <= to) add(from, to);
  }
}

// The pairs of surrogates of [low, high], which lies above U+FFFF, from a state behind "\u".
void add_surrogate_pairs(ByteGrammar& grammar, int32_t from, char32_t low, char32_t high, int32_t to) {
  constexpr char32_t kHigh = 0xD800, kLow = 0xDC00;
  const auto pairs = [&](char32_t first, char32_t last, char32_t second_low, char32_t second_high) {
    const int32_t middle = grammar.add_state();
    add_numbers(grammar, from, kHex4, kHigh + first, kHigh + last, middle);
    add_numbers(grammar, grammar.add_text(middle, "\\u"), kHex4, kLow + second_low, kLow + second_high, to);
  };
  low -= 0x10000, high -= 0x10000;
  char32_t first = low >> 10, last = high >> 10;
  if (first == last) return pairs(first, last, low & 0x3FF, high & 0x3FF);
  if ((low & 0x3FF) != 0) pairs(first, first, low & 0x3FF, 0x3FF), ++first;
  const bool is_cut = (high & 0x3FF) != 0x3FF;
  if (is_cut) pairs(last, last, 0, high & 0x3FF);
  if (is_cut && last == first) return;
  if (is_cut) --last;
  if (first <= last) pairs(first, last, 0, 0x3FF);
}

// What is written in one way only, as itself.
CodePointSet plain_ascii() { return CodePointSet({{' ', '!'}, {'#', '.'}, {'0', '['}, {']', '~'}}); }

}  // namespace

// A callee that reads one character of the set in any way but as an ASCII character itself.
int32_t JsonCharacters::escaped_or_long(const CodePointSet& set) {
  const auto [found, is_new] = rules_.try_emplace(set, 0);
  if (!is_new) return found->second;
  const int32_t start = found->second = grammar_.add_state(), end = grammar_.add_state();
  grammar_.set_final(end);
  if (set == CodePointSet::all().minus(plain_ascii()))
    grammar_.set_free_characters(start, ByteGrammar::kAnyCharacter);
  for (const Utf8Length& length : kUtf8Lengths) {
    const std::span<const Digits> places = std::span(length.places).first(length.count);
    for_ranges(set, length.low, length.high,
               [&](char32_t low, char32_t high) { add_numbers(grammar_, start, places, low, high, end); });
  }
  const int32_t escape = grammar_.add_state(), hex = grammar_.add_state();
  grammar_.add_edge(start, '\\', escape);
  for (const ShortEscape& short_escape : kShortEscapes) {
    if (set.contains(short_escape.character)) grammar_.add_edge(escape, short_escape.letter, end);
  }
  grammar_.add_edge(escape, 'u', hex);
  const auto add_hex = [&](char32_t low, char32_t high) {
    add_numbers(grammar_, hex, kHex4, low, high, end);
  };
  for_ranges(set, 0, 0x1F, add_hex);
  for_ranges(set, 0x7F, kLastBmp, add_hex);
  for_ranges(set, kLastBmp + 1, 0x10FFFF,
             [&](char32_t low, char32_t high) { add_surrogate_pairs(grammar_, hex, low, high, end); });
  return start;
}

// UTF-8, but for control characters that no text has.
void JsonCharacters::add_raw_edge(int32_t from, const CodePointSet& set, int32_t to) {
  const CodePointSet ascii = set.intersect(CodePointSet({{'\t', '\n'}, {'\r', '\r'}, {' ', '~'}}));
  for (const CodePointRange& range : ascii.ranges())
    grammar_.add_edge(from, static_cast<uint8_t>(range.low), static_cast<uint8_t>(range.high), to);
  const CodePointSet longer = set.intersect(CodePointSet({{0x80, 0x10FFFF}}));
  if (longer.empty()) return;
  const auto [found, is_new] = rules_.try_emplace(longer, 0);
  if (is_new) {
    const int32_t start = found->second = grammar_.add_state(), end = grammar_.add_state();
    grammar_.set_final(end);
    for (const Utf8Length& length : kUtf8Lengths) {
      const std::span<const Digits> places = std::span(length.places).first(length.count);
      for_ranges(longer, length.low, length.high,
                 [&](char32_t low, char32_t high) { add_numbers(grammar_, start, places, low, high, end); });
    }
  }
  grammar_.add_call(from, found->second, to);
}

void JsonCharacters::add_close(int32_t from, int32_t to) {
  const std::string_view close = notation_.close;
  const int32_t last = grammar_.add_text(from, close.substr(0, close.size() - 1));
  grammar_.add_edge(last, close.back(), to);
}

void JsonCharacters::add_edge(int32_t from, const CodePointSet& set, int32_t to) {
  if (notation_.is_raw) return add_raw_edge(from, set, to);
  const CodePointSet raw = set.intersect(CodePointSet({{' ', '!'}, {'#', '['}, {']', 0x7F}}));
  for (const CodePointRange& range : raw.ranges()) {
    grammar_.add_edge(from, static_cast<uint8_t>(range.low), static_cast<uint8_t>(range.high), to);
  }
  const CodePointSet rest = set.minus(plain_ascii());
  if (!rest.empty()) grammar_.add_call(from, escaped_or_long(rest), to);
}

int32_t add_free_string_body(ByteGrammar& grammar, JsonCharacters& characters, int32_t least, int32_t most) {
  const bool is_limited = most != ByteGrammar::kUnlimited;
  const int32_t last = is_limited ? most : least;
  const int32_t end = grammar.add_state();
  grammar.set_final(end);
  int32_t first = grammar.add_state(), state = first;
  for (int32_t count = 0;; ++count) {
    grammar.set_free_characters(state, is_limited ? most - count : ByteGrammar::kUnlimited);
    if (count >= least) characters.add_close(state, end);
    if (count == last) break;
    const int32_t next = grammar.add_state();
    characters.add_edge(state, CodePointSet::all(), next);
    state = next;
  }
  if (!is_limited) characters.add_edge(state, CodePointSet::all(), state);
  return first;
}

int32_t add_free_string_body(ByteGrammar& grammar, int32_t least, int32_t most) {
  JsonCharacters characters(grammar);
  return add_free_string_body(grammar, characters, least, most);
}

}  // namespace rafter::text
