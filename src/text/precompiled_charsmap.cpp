#include "text/precompiled_charsmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;

bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

uint32_t read_word(std::string_view bytes, size_t position) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[position + i])) << (8 * i);
  }
  return word;
}

// A character as utf8proc's tables know it: marks that are newer extend a cluster like any other.
utf8proc_int32_t known_character(char32_t c) {
  constexpr char32_t kSomeMark = 0x300;
  const bool is_new_mark = (classify(c) & kMark) != 0 &&
                           utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_CN;
  return static_cast<utf8proc_int32_t>(is_new_mark ? kSomeMark : c);
}

// The end of the grapheme cluster that starts at `begin`.
size_t cluster_end(std::string_view text, size_t begin) {
  utf8proc_int32_t state = 0;
  Char character = char_at(text, begin);
  size_t end = begin + character.length;
  while (end < text.size()) {
    const Char next = char_at(text, end);
    if (utf8proc_grapheme_break_stateful(known_character(character.code_point),
                                         known_character(next.code_point), &state)) {
      break;
    }
    end += next.length;
    character = next;
  }
  return end;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

// Which characters of the result the library takes to come from the first characters of the text. It notes
// for each one whether it stands for one more character (0), is inserted behind what that stood for (1), or
// stands for several (-n); what replaces a part of the text by nothing is added to the character before.
class FirstBytes {
 public:
  explicit FirstBytes(std::string_view first)
      : characters_(static_cast<ptrdiff_t>(count_characters(first))) {}

  void replaced(std::string_view part, std::string_view by) {
    if (consumed_before_last_ > characters_) return;
    const auto more =
        static_cast<ptrdiff_t>(count_characters(by)) - static_cast<ptrdiff_t>(count_characters(part));
    const size_t begin = changes_.size();
    for (size_t at = 0; at < by.size(); at += changes_.back().bytes) {
      changes_.push_back({char_at(by, at).length, 0});
    }
    for (size_t i = changes_.size(); more > 0 && i-- > begin + count_characters(part);)
      changes_[i].change = 1;
    if (more < 0 && !changes_.empty()) changes_.back().change += more;
    consumed_before_last_ = 0;
    for (size_t i = 0; i + 1 < changes_.size(); ++i) consumed_before_last_ += 1 - changes_[i].change;
  }

  size_t bytes() const {
    size_t bytes = 0;
    ptrdiff_t consumed = 0;
    for (const Change& one : changes_) {
      if (consumed > characters_ || (consumed == characters_ && one.change <= 0)) break;
      bytes += one.bytes;
      consumed += 1 - one.change;
    }
    return bytes;
  }

 private:
  struct Change {
    uint32_t bytes;
    ptrdiff_t change;
  };
  ptrdiff_t characters_;
  ptrdiff_t consumed_before_last_ = 0;
  std::vector<Change> changes_;  // until they are past the first characters
};

}  // namespace

base::Result<PrecompiledCharsmap> PrecompiledCharsmap::parse(std::string_view bytes,
                                                             const std::string& where) {
  const size_t size = bytes.size() < 4 ? SIZE_MAX : read_word(bytes, 0);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) {
    return Error{ErrorCode::invalid_data, "the charsmap's sizes do not fit its length", where, ""};
  }
  PrecompiledCharsmap map;
  for (size_t at = 4; at < 4 + size; at += 4) map.units_.push_back(read_word(bytes, at));
  map.replacements_ = bytes.substr(4 + size);
  if (!base::is_valid_utf8(map.replacements_)) {
    return Error{ErrorCode::invalid_data, "the charsmap's replacements are not valid UTF-8", where, ""};
  }
  return map;
}

std::optional<PrecompiledCharsmap::Match> PrecompiledCharsmap::find(std::string_view text,
                                                                    bool longest) const {
  std::optional<Match> best;
  size_t node = offset_of(units_[0]);
  for (size_t at = 0; at < text.size() && text[at] != 0; ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (node >= units_.size()) break;
    if (!has_leaf(unit)) continue;
    const size_t begin = value_of(units_[node]);
    // A hostile array may point anywhere, also into the middle of a character, and end entries there.
    const auto is_inside = [](std::string_view bytes, size_t position) {
      return position < bytes.size() && (static_cast<uint8_t>(bytes[position]) & 0xC0) == 0x80;
    };
    if (begin > replacements_.size() || is_inside(replacements_, begin) || is_inside(text, at + 1)) continue;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    best = Match{rest.substr(0, rest.find('\0')), at + 1};
    if (!longest) break;
  }
  return best;
}

std::string PrecompiledCharsmap::apply_longest(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Match> match = find(text, true);
    const size_t length = match ? match->length : char_at(text, 0).length;
    out += match ? match->replacement : text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

std::string PrecompiledCharsmap::apply(std::string_view text, size_t& first_bytes) const {
  constexpr size_t kLongCluster = 6;
  std::string out;
  out.reserve(text.size());
  FirstBytes first(text.substr(0, first_bytes));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = cluster_end(text, begin);
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() < kLongCluster) {
      if (const auto replacement = replacement_of(cluster)) {
        out += *replacement;
        first.replaced(cluster, *replacement);
        continue;
      }
    }
    for (size_t at = 0; at < cluster.size();) {
      const std::string_view character = cluster.substr(at, char_at(cluster, at).length);
      const std::string_view replacement = replacement_of(character).value_or(character);
      out += replacement;
      first.replaced(character, replacement);
      at += character.size();
    }
  }
  first_bytes = first.bytes();
  return out;
}

}  // namespace rafter::text
