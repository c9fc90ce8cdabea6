#include "text/regex_properties.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/unicode.h"

namespace rafter::text {
namespace {

// Code points newer than Unicode 14 in a category ("L", "Lu", "Nd").
std::string additions_of(std::string_view category) {
  std::string ranges;
  for (size_t i = 0; i < kUnicodeAdditionCount; ++i) {
    const UnicodeAddition& addition = kUnicodeAdditions[i];
    if (!std::string_view(addition.category).starts_with(category)) continue;
    ranges += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(addition.first),
                          static_cast<uint32_t>(addition.last));
  }
  return ranges;
}

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                            "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                            "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                            "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co"};

struct Script {
  std::string_view name;
  std::string_view additions;  // what Unicode 15 to 16 added
};
constexpr Script kScripts[] = {
    {"Han", R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"},
    {"Hiragana", R"(\x{1B132})"},
    {"Katakana", R"(\x{1B155})"},
    {"Latin", R"(\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{1DF25}-\x{1DF2A})"},
    {"Cyrillic", R"(\x{1C89}-\x{1C8A}\x{1E030}-\x{1E06D}\x{1E08F})"},
    {"Arabic", R"(\x{897}\x{10EC2}-\x{10EC4}\x{10EFC}-\x{10EFF})"},
    {"Devanagari", R"(\x{11B00}-\x{11B09})"},
    {"Lao", R"(\x{ECE})"},
    {"Kannada", R"(\x{CF3})"},
    {"Myanmar", R"(\x{116D0}-\x{116E3})"},
    {"Hangul", ""},
    {"Greek", ""},
    {"Hebrew", ""},
    {"Thai", ""},
    {"Tamil", ""},
    {"Bengali", ""},
    {"Armenian", ""},
    {"Georgian", ""},
    {"Khmer", ""},
    {"Bopomofo", ""},
    {"Telugu", ""},
    {"Malayalam", ""},
    {"Gujarati", ""},
    {"Gurmukhi", ""},
    {"Sinhala", ""},
    {"Tibetan", ""},
    {"Ethiopic", ""},
    {"Mongolian", ""},
};

// Letters, marks, decimal digits, letter numbers, connectors, circled letters.
constexpr std::string_view kWordSet = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9})"
                                      R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
// Superscripts and fractions of Latin-1.
constexpr std::string_view kMoreOfWordSet = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

}  // namespace

std::string digit_set() { return "\\p{Nd}" + additions_of("Nd"); }

std::string word_set(bool in_class) {
  return fmt::format("{}{}{}{}{}", kWordSet, in_class ? "" : kMoreOfWordSet, additions_of("L"),
                     additions_of("M"), additions_of("Nd"));
}

std::optional<std::string> property_set(std::string_view name) {
  if (std::find(std::begin(kCategories), std::end(kCategories), name) != std::end(kCategories)) {
    return fmt::format("\\p{{{}}}{}", name, additions_of(name));
  }
  for (const Script& script : kScripts) {
    if (script.name == name) return fmt::format("\\p{{sc:{}}}{}", name, script.additions);
  }
  if (name == "Space" || name == "White_Space") return std::string(kSpaceSet);
  return std::nullopt;
}

}  // namespace rafter::text
