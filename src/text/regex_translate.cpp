#include "text/regex_translate.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "text/quote.h"
#include "text/regex_properties.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

// Bytes of the escape at the start of `pattern`, which starts with a backslash.
size_t escape_length(std::string_view pattern) {
  if (pattern.size() < 2) return pattern.size();
  const char letter = pattern[1];
  if (pattern.substr(2).starts_with("{") && (letter == 'p' || letter == 'P' || letter == 'x')) {
    return std::min(pattern.find('}'), pattern.size() - 1) + 1;
  }
  return std::min<size_t>(letter == 'u' ? 6 : letter == 'x' ? 4 : 2, pattern.size());
}

// Whether folding case may turn a sequence of the pattern into one other character, or one into a sequence:
// Oniguruma folds ß to ss and ligatures to their letters, PCRE2 does not.
bool folds_beyond_single_characters(std::string_view pattern) {
  std::string literals;
  for (size_t position = 0; position < pattern.size();) {
    if (pattern[position] == '\\') {
      position += escape_length(pattern.substr(position));
      literals += ' ';
      continue;
    }
    const Char character = char_at(pattern, position);
    if (character.code_point >= 128 && (classify(character.code_point) & kLetter) != 0) return true;
    const char c = pattern[position];
    literals += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    position += character.length;
  }
  for (std::string_view sequence : {"ss", "ff", "fi", "fl", "st"}) {
    if (literals.find(sequence) != std::string::npos) return true;
  }
  return false;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  Result<std::string> run() {
    if (pattern_.find("(?i") != std::string_view::npos && folds_beyond_single_characters(pattern_)) {
      return unsupported("case folded beyond single characters");
    }
    while (!at_end()) {
      RAFTER_TRY(item());
    }
    if (!group_starts_.empty()) return invalid("a group that is not closed");
    return std::move(out_);
  }

 private:
  bool at_end() const { return position_ >= pattern_.size(); }
  bool follows(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  char take() { return pattern_[position_++]; }

  Error invalid(const std::string& what) const {
    return Error{ErrorCode::invalid_data,
                 fmt::format("regular expression with {}: {}", what, quote(pattern_)), where_, ""};
  }
  Error unsupported(const std::string& what) const {
    return Error{ErrorCode::unsupported, fmt::format("regular expression with {}: {}", what, quote(pattern_)),
                 where_, ""};
  }

  // An atom's text starts here: what a quantifier behind it applies to.
  void begin_atom() { atom_start_ = out_.size(); }

  Status item() {
    switch (pattern_[position_]) {
      case '(':
        return open_group();
      case ')':
        if (group_starts_.empty()) return invalid("a ) too many");
        out_ += take();
        atom_start_ = group_starts_.back();
        group_starts_.pop_back();
        return {};
      case '[':
        return character_class();
      case '\\':
        begin_atom();
        return escape(false);
      case '{':
        return interval();
      case '|':
      case '*':
      case '+':
      case '?':
        out_ += take();
        return {};
      default:
        begin_atom();
        copy_character();
        return {};
    }
  }

  void copy_character() {
    const uint32_t length = char_at(pattern_, position_).length;
    out_ += pattern_.substr(position_, length);
    position_ += length;
  }

  Status open_group() {
    static constexpr std::string_view kOpenings[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    std::string_view opening = "(";
    if (follows("(?")) {
      opening = {};
      for (std::string_view known : kOpenings) {
        if (follows(known)) opening = known;
      }
      // Oniguruma ends the reach of an option at the next |, PCRE2 does not; at the very start they agree.
      if (opening.empty() && follows("(?i)") && position_ == 0) {
        out_ += "(?i)";
        position_ += 4;
        return {};
      }
      if (opening.empty()) return unsupported(fmt::format("the group {}", pattern_.substr(position_, 4)));
    } else if (follows("(*")) {
      return unsupported("a (* verb");
    }
    group_starts_.push_back(out_.size());
    if (group_starts_.size() > 100) return unsupported("groups nested over 100 deep");
    out_ += opening;
    position_ += opening.size();
    return {};
  }

  Status character_class() {
    begin_atom();
    out_ += take();
    if (follows("^")) out_ += take();
    if (follows("]")) {
      out_ += "\\]";
      ++position_;
    }
    while (!at_end() && !follows("]")) {
      if (follows("[:space:]")) {
        out_ += kSpaceSet;
        position_ += 9;
      } else if (follows("[")) {
        return unsupported("a class within a class");
      } else if (follows("&&")) {
        return unsupported("an intersection of classes");
      } else if (follows("\\")) {
        RAFTER_TRY(escape(true));
      } else {
        copy_character();
      }
    }
    if (at_end()) return invalid("a character class that is not closed");
    out_ += take();
    return {};
  }

  // {n}, {n,}, {n,m}, {,m}; otherwise a literal brace.
  Status interval() {
    size_t end = position_ + 1;
    auto skip_digits = [&] {
      const size_t start = end;
      while (end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9') ++end;
      return pattern_.substr(start, end - start);
    };
    const std::string_view low = skip_digits();
    std::string_view high = low;
    bool fixed = true;
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      fixed = false;
      high = skip_digits();
    }
    if (end >= pattern_.size() || pattern_[end] != '}' || (low.empty() && high.empty())) {
      begin_atom();
      out_ += "\\{";
      ++position_;
      return {};
    }
    position_ = end + 1;
    out_ += fixed ? fmt::format("{{{}}}", low) : fmt::format("{{{},{}}}", low.empty() ? "0" : low, high);
    if (follows("+")) {  // no possessive intervals here: the whole is repeated
      out_.insert(atom_start_, "(?:");
      out_ += ")";
    } else if (follows("?") && fixed) {
      return unsupported("the quantifier {n}?");
    }
    return {};
  }

  void append_set(std::string_view set, bool negated, bool in_class) {
    if (in_class) {
      out_ += set;
    } else {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", set);
    }
  }

  // Precondition: at a backslash.
  Status escape(bool in_class) {
    take();
    if (at_end()) return invalid("a \\ at its end");
    if (static_cast<uint8_t>(pattern_[position_]) >= 0x80) {
      copy_character();
      return {};
    }
    const char letter = take();
    switch (letter) {
      case 's':
        append_set(kSpaceSet, false, in_class);
        return {};
      case 'S':
        append_set(kNotSpaceSet, false, in_class);
        return {};
      case 'd':
        append_set(digit_set(), false, in_class);
        return {};
      case 'w':
        append_set(word_set(in_class), false, in_class);
        return {};
      case 'h':
        append_set("0-9a-fA-F", false, in_class);
        return {};
      case 'D':
      case 'W':
      case 'H':
        if (in_class) return unsupported(fmt::format("\\{} in a character class", letter));
        append_set(letter == 'D' ? digit_set() : letter == 'W' ? word_set(false) : "0-9a-fA-F", true, false);
        return {};
      case 'p':
      case 'P':
        return property(letter == 'P', in_class);
      case 'b':
      case 'B':
        if (in_class) return unsupported("\\b in a character class");
        out_ += word_boundary(letter == 'B');
        return {};
      case 'A':
      case 'z':
      case 'Z':
        if (in_class) return unsupported(fmt::format("\\{} in a character class", letter));
        out_ += fmt::format("\\{}", letter);
        return {};
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_ += fmt::format("\\{}", letter);
        return {};
      case 'v':
        out_ += "\\x{B}";
        return {};
      case 'x':
      case 'u':
        return code_point(letter);
      default:
        if ((classify(static_cast<char32_t>(letter)) & (kLetter | kNumber)) != 0) {
          return unsupported(fmt::format("\\{}", letter));
        }
        out_ += fmt::format("\\{}", letter);
        return {};
    }
  }

  static std::string word_boundary(bool negated) {
    const std::string word = word_set(false);
    return fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word, negated ? '=' : '!',
                       negated ? '!' : '=');
  }

  // \x41, \x{2028}, \u0085.
  Status code_point(char letter) {
    const bool braced = letter == 'x' && follows("{");
    if (braced) ++position_;
    const size_t most = braced ? 8 : letter == 'u' ? 4 : 2;
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < most && !at_end(); ++digits) {
      const size_t digit = std::string_view("0123456789abcdefABCDEF").find(pattern_[position_]);
      if (digit == std::string_view::npos) break;
      value = value << 4 | static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
      ++position_;
    }
    if (digits == 0 || (letter == 'u' && digits != 4))
      return invalid(fmt::format("a malformed \\{}", letter));
    if (braced) {
      if (!follows("}")) return invalid("a malformed \\x{");
      ++position_;
    }
    // Without braces \x80 and above would be bytes.
    if (letter == 'x' && !braced && value > 0x7F) return unsupported("\\x80 or above without braces");
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return invalid("a code point out of range");
    out_ += fmt::format("\\x{{{:X}}}", value);
    return {};
  }

  // Precondition: behind \p or \P.
  Status property(bool negated, bool in_class) {
    const size_t close = pattern_.find('}', position_);
    if (!follows("{") || close == std::string_view::npos) return unsupported("\\p without braces");
    std::string_view name = pattern_.substr(position_ + 1, close - position_ - 1);
    position_ = close + 1;
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::optional<std::string> set = property_set(name);
    if (!set) return unsupported(fmt::format("\\p{{{}}}", name));
    if (negated && in_class)
      return unsupported(fmt::format("a negated \\p{{{}}} in a character class", name));
    append_set(*set, negated, in_class);
    return {};
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  size_t position_ = 0;
  size_t atom_start_ = 0;             // in out_
  std::vector<size_t> group_starts_;  // in out_, of the groups that are open
};

}  // namespace

Result<std::string> translate_to_pcre2(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace rafter::text
