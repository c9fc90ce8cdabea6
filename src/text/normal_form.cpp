#include "text/normal_form.h"

#include <span>
#include <vector>

#include <utf8proc.h>

#include "base/check.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

// Characters that a normal form leaves alone and that never combine with one before them. Not all of them:
// the ranges that make up most text, so that only the rest goes through the slow path.
bool is_inert(NormalForm form, char32_t c) {
  if (c < 0xA0 || (c >= 0x4E00 && c <= 0x9FFF)) return true;
  if (form == NormalForm::nfd || form == NormalForm::nfkd) return false;
  if ((c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FA) || (c >= 0xAC00 && c <= 0xD7A3))
    return true;
  if (form == NormalForm::nfkc) return false;
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x5D0 && c <= 0x5EA) ||
         (c >= 0x621 && c <= 0x64A) || (c >= 0x2010 && c <= 0x2027) || (c >= 0xFF01 && c <= 0xFF60) ||
         (c >= 0x1F300 && c <= 0x1FAFF);
}

size_t skip_ascii(std::string_view text, size_t position) {
  while (position < text.size() && static_cast<uint8_t>(text[position]) < 0x80) ++position;
  return position;
}

int combining_class(utf8proc_int32_t character) { return utf8proc_get_property(character)->combining_class; }

// A stable counting sort by combining class.
void sort_marks(std::span<utf8proc_int32_t> marks) {
  size_t starts[257] = {};
  for (const auto mark : marks) ++starts[combining_class(mark) + 1];
  for (size_t i = 1; i < std::size(starts); ++i) starts[i] += starts[i - 1];
  const std::vector<utf8proc_int32_t> unsorted(marks.begin(), marks.end());
  for (const auto mark : unsorted) marks[starts[combining_class(mark)]++] = mark;
}

// utf8proc's own ordering of marks takes quadratic time in the length of a run of them.
void order_marks(std::span<utf8proc_int32_t> characters) {
  size_t start = 0;
  while (start < characters.size()) {
    size_t end = start;
    while (end < characters.size() && combining_class(characters[end]) != 0) ++end;
    if (end - start > 1) sort_marks(characters.subspan(start, end - start));
    start = end + 1;
  }
}

void append_normalized(NormalForm form, std::string_view text, std::string& out) {
  const bool is_compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (is_compatible ? UTF8PROC_COMPAT : 0));
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  constexpr size_t kLongestDecomposition = 32;  // U+FDFA has 18 characters
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Char character = char_at(text, position);
    position += character.length;
    utf8proc_int32_t decomposed[kLongestDecomposition];
    int last_boundary_class = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point), decomposed,
                                kLongestDecomposition, decompose, &last_boundary_class);
    RAFTER_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(kLongestDecomposition), "{} characters",
                 count);
    characters.insert(characters.end(), decomposed, decomposed + count);
  }
  order_marks(characters);
  auto count = static_cast<utf8proc_ssize_t>(characters.size());
  if (form == NormalForm::nfc || form == NormalForm::nfkc) {
    count = utf8proc_normalize_utf32(characters.data(), count, kCompose);
  }
  RAFTER_CHECK(count >= 0, "{}", count);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    base::append_utf8(out, static_cast<char32_t>(characters[static_cast<size_t>(i)]));
  }
}

}  // namespace

std::string_view normalize(NormalForm form, std::string_view text, std::string& storage) {
  // A stretch that may change starts at the last inert character before it (the one it may combine with) and
  // ends before the next inert character.
  size_t copied = 0;      // bytes of `text` that `storage` already covers
  size_t last_inert = 0;  // start of the last inert character seen
  bool changed = false;
  size_t position = 0;
  while (true) {
    const size_t ascii_end = skip_ascii(text, position);
    if (ascii_end > position) last_inert = ascii_end - 1;
    position = ascii_end;
    if (position >= text.size()) break;
    Char character = char_at(text, position);
    if (is_inert(form, character.code_point)) {
      last_inert = position;
      position += character.length;
      continue;
    }
    const size_t start = last_inert;
    while (position < text.size()) {
      character = char_at(text, position);
      if (is_inert(form, character.code_point)) break;
      position += character.length;
    }
    if (!changed) storage.clear();
    changed = true;
    storage.append(text.substr(copied, start - copied));
    append_normalized(form, text.substr(start, position - start), storage);
    copied = position;
    last_inert = position;
  }
  if (!changed) return text;
  storage.append(text.substr(copied));
  return storage;
}

}  // namespace rafter::text
