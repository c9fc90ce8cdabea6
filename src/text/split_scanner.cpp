#include "text/split_scanner.h"

#include <cstdint>

#include "text/unicode.h"

namespace rafter::text {
namespace {

struct ScannerPattern {
  SplitScanner scanner;
  std::string_view pattern;
};

constexpr ScannerPattern kPatterns[] = {
    {SplitScanner::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitScanner::llama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                           R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::qwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                          R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::minicpm5, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
                             R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::qwen35, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                           R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::o200k, R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                          R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::tekken, R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                           R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                           R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::digit_groups, R"(\p{N}{1,3})"},
    {SplitScanner::ideographs, "[一-龥\u3040-\u309F\u30A0-\u30FF]+"},
    {SplitScanner::deepseek,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    // The same as the model's own file writes it.
    {SplitScanner::deepseek, R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                             "\r\n"
                             R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                             "\r\n"
                             R"(]*|\s*[)"
                             "\r\n"
                             R"(]+|\s+(?!\S)|\s+)"},
};

// End of the run of characters from `position` on that satisfy `belongs(CharClass)`.
template <typename Belongs>
size_t run_end(std::string_view text, size_t position, Belongs belongs) {
  while (position < text.size()) {
    const Char character = char_at(text, position);
    if (!belongs(classify(character.code_point))) break;
    position += character.length;
  }
  return position;
}

size_t run_end_of(std::string_view text, size_t position, CharClass wanted) {
  return run_end(text, position, [=](CharClass c) { return (c & wanted) != 0; });
}

CharClass class_at(std::string_view text, size_t position) {
  return position < text.size() ? classify(char_at(text, position).code_point) : kSpace;
}

// The contraction at the start of `text`, which starts with an apostrophe: 0, 2 or 3 characters, in bytes.
// Folding case adds U+017F "ſ", which folds to s, to the capitals.
size_t contraction_length(std::string_view text, bool fold_case) {
  auto letter = [&](size_t i) -> char {
    if (i >= text.size()) return 0;
    return fold_case && text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      return fold_case && text.substr(1, 2) == "\xC5\xBF" ? 3 : 0;
  }
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`, or without its first alternative. `text` starts with white space.
size_t space_length(std::string_view text, bool end_at_newline) {
  size_t end = 0;
  size_t last_start = 0;
  size_t newline_end = 0;
  while (end < text.size()) {
    const Char character = char_at(text, end);
    const CharClass char_class = classify(character.code_point);
    if ((char_class & kSpace) == 0) break;
    last_start = end;
    end += character.length;
    if ((char_class & kNewline) != 0) newline_end = end;
  }
  if (end_at_newline && newline_end > 0) return newline_end;
  if (end == text.size() || last_start == 0) return end;
  return last_start;  // the last one may join the next piece
}

size_t gpt2_length(std::string_view text) {
  if (text[0] == '\'') {
    if (size_t length = contraction_length(text, false); length > 0) return length;
  }
  const size_t start = text[0] == ' ' ? 1 : 0;
  const CharClass char_class = class_at(text, start);
  if ((char_class & kLetter) != 0) return run_end_of(text, start, kLetter);
  if ((char_class & kNumber) != 0) return run_end_of(text, start, kNumber);
  if ((char_class & kSpace) != 0) return space_length(text, false);
  return run_end(text, start, [](CharClass c) { return (c & (kLetter | kNumber | kSpace)) == 0; });
}

// The numbers that `text` starts with, `most` at most.
size_t number_group_end(std::string_view text, size_t most) {
  size_t end = 0;
  for (size_t count = 0; count < most && (class_at(text, end) & kNumber) != 0; ++count) {
    end += char_at(text, end).length;
  }
  return end;
}

// cl100k's pattern and its relatives. Letters: the classes that make up words. A mark that counts as a letter
// is also allowed as the optional character in front of a word; the piece is the same either way.
template <CharClass Letters, size_t MaxNumbers>
size_t cl100k_length(std::string_view text) {
  if (text[0] == '\'') {
    if (size_t length = contraction_length(text, true); length > 0) return length;
  }
  const Char first = char_at(text, 0);
  const CharClass char_class = classify(first.code_point);
  if ((char_class & Letters) != 0) return run_end_of(text, first.length, Letters);
  if ((char_class & kNumber) != 0) return number_group_end(text, MaxNumbers);
  if ((char_class & kNewline) == 0 && (class_at(text, first.length) & Letters) != 0) {
    return run_end_of(text, first.length, Letters);
  }
  const size_t start = first.code_point == ' ' ? 1 : 0;
  auto is_symbol = [](CharClass c) { return (c & (Letters | kNumber | kSpace)) == 0; };
  if (!is_symbol(class_at(text, start))) return space_length(text, true);
  const size_t end = run_end(text, start, is_symbol);
  return run_end_of(text, end, kNewline);
}

// The word of o200k's first two alternatives from `start` on, 0 if there is none. Capitals and then small
// letters; letters without case and marks are both. Where no small letter follows the capitals, they end
// behind the last character that is both: the first alternative prefers to find a small one.
size_t cased_word_end(std::string_view text, size_t start) {
  size_t end = start;
  size_t both_end = 0;
  while (end < text.size()) {
    const Char character = char_at(text, end);
    const CharClass char_class = classify(character.code_point);
    if ((char_class & kLower) != 0) {
      return run_end(text, end,
                     [](CharClass c) { return (c & (kLetter | kMark)) != 0 && (c & kUpper) == 0; });
    }
    if ((char_class & (kLetter | kMark)) == 0) break;
    end += character.length;
    if ((char_class & kUpper) == 0) both_end = end;
  }
  if (both_end > 0) return both_end;
  return end > start ? end : 0;
}

template <bool HasContractions, size_t MaxNumbers>
size_t o200k_length(std::string_view text) {
  const Char first = char_at(text, 0);
  const CharClass char_class = classify(first.code_point);
  // What may stand in front of a word; a mark is part of it either way.
  const bool precedes = (char_class & (kLetter | kMark | kNumber | kNewline)) == 0;
  const size_t word = cased_word_end(text, precedes ? first.length : 0);
  if (word > 0) {
    const bool apostrophe = HasContractions && word < text.size() && text[word] == '\'';
    return word + (apostrophe ? contraction_length(text.substr(word), true) : 0);
  }
  if ((char_class & kNumber) != 0) return number_group_end(text, MaxNumbers);
  const size_t start = first.code_point == ' ' ? 1 : 0;
  auto is_symbol = [](CharClass c) { return (c & (kLetter | kNumber | kSpace)) == 0; };
  if (!is_symbol(class_at(text, start))) return space_length(text, true);
  size_t end = run_end(text, start, is_symbol);
  while (end < text.size() && (text[end] == '\r' || text[end] == '\n' || text[end] == '/')) ++end;
  return end;
}

// The match of DeepSeek's pattern at the start of `text`, 0 if there is none.
size_t deepseek_match(std::string_view text) {
  const Char first = char_at(text, 0);
  const CharClass char_class = classify(first.code_point);
  const auto is_ascii_letter = [&](size_t i) {
    return i < text.size() && static_cast<uint8_t>(text[i]) < 128 && (class_at(text, i) & kLetter) != 0;
  };
  constexpr CharClass kWord = kLetter | kMark;
  if ((char_class & kWord) != 0) return run_end_of(text, first.length, kWord);
  if ((char_class & kSymbol) != 0 && first.code_point < 128 && is_ascii_letter(1)) {
    size_t end = 2;
    while (is_ascii_letter(end)) ++end;
    return end;
  }
  if ((char_class & (kSymbol | kNewline)) == 0 && (class_at(text, first.length) & kWord) != 0) {
    return run_end_of(text, first.length, kWord);
  }
  const size_t start = first.code_point == ' ' ? 1 : 0;
  if ((class_at(text, start) & kSymbol) != 0) {
    return run_end_of(text, run_end_of(text, start, kSymbol), kNewline);
  }
  return (char_class & kSpace) != 0 ? space_length(text, true) : 0;
}

size_t deepseek_length(std::string_view text) {
  size_t end = deepseek_match(text);
  if (end > 0) return end;
  do {
    end += char_at(text, end).length;
  } while (end < text.size() && deepseek_match(text.substr(end)) == 0);
  return end;
}

size_t ideographs_length(std::string_view text) {
  const auto belongs = [](char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  };
  const bool wanted = belongs(char_at(text, 0).code_point);
  size_t end = 0;
  while (end < text.size()) {
    const Char character = char_at(text, end);
    if (belongs(character.code_point) != wanted) break;
    end += character.length;
  }
  return end;
}

size_t digit_group_length(std::string_view text) {
  if ((class_at(text, 0) & kNumber) == 0)
    return run_end(text, 0, [](CharClass c) { return (c & kNumber) == 0; });
  return number_group_end(text, 3);
}

}  // namespace

std::optional<SplitScanner> scanner_for_pattern(std::string_view pattern) {
  for (const ScannerPattern& known : kPatterns) {
    if (known.pattern == pattern) return known.scanner;
  }
  return std::nullopt;
}

std::string_view pattern_of_scanner(SplitScanner scanner) {
  for (const ScannerPattern& known : kPatterns) {
    if (known.scanner == scanner) return known.pattern;
  }
  return {};
}

bool covers_everything(SplitScanner scanner) {
  return scanner != SplitScanner::digit_groups && scanner != SplitScanner::ideographs &&
         scanner != SplitScanner::deepseek;
}

size_t first_piece_length(SplitScanner scanner, std::string_view text) {
  switch (scanner) {
    case SplitScanner::gpt2:
      return gpt2_length(text);
    case SplitScanner::llama3:
      return cl100k_length<kLetter, 3>(text);
    case SplitScanner::qwen2:
      return cl100k_length<kLetter, 1>(text);
    case SplitScanner::minicpm5:
      return cl100k_length<kLetter, SIZE_MAX>(text);
    case SplitScanner::qwen35:
      return cl100k_length < kLetter | kMark, 1 > (text);
    case SplitScanner::o200k:
      return o200k_length<true, 3>(text);
    case SplitScanner::tekken:
      return o200k_length<false, 1>(text);
    case SplitScanner::ideographs:
      return ideographs_length(text);
    case SplitScanner::deepseek:
      return deepseek_length(text);
    case SplitScanner::digit_groups:
      return digit_group_length(text);
  }
  return text.size();
}

}  // namespace rafter::text
