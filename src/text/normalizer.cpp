#include "text/normalizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/normal_form.h"
#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

// Steps may replace a character by a long text, and may follow each other.
size_t longest_result(size_t input) { return std::max<size_t>(1 << 20, input * 32); }

// Copies the characters that `change` leaves: it is called with each one and appends what takes its place.
// Returns how much took the place of the first `first_bytes`.
template <typename Change>
size_t map_characters(std::string_view text, size_t first_bytes, std::string& out, Change change) {
  out.clear();
  out.reserve(text.size());
  size_t mapped_first = 0;
  for (size_t position = 0; position < text.size();) {
    const Char character = char_at(text, position);
    change(character.code_point, out);
    if (position < first_bytes) mapped_first = out.size();
    position += character.length;
  }
  return mapped_first;
}

// How many bytes of a normal form come from the first bytes of the text, whose own normal form is `first`.
// The last of their characters may have been joined with what follows.
size_t first_bytes_of_form(std::string_view form, std::string_view first) {
  if (form.starts_with(first)) return first.size();
  size_t bytes = 0;
  for (size_t at = 0; at < first.size() && bytes < form.size(); at += char_at(first, at).length) {
    bytes += char_at(form, bytes).length;
  }
  return bytes;
}

bool is_space(char32_t c) { return (classify(c) & kSpace) != 0; }

std::string_view strip_spaces(std::string_view text, const StripSpaceStep& step) {
  while (step.left && !text.empty() && is_space(char_at(text, 0).code_point)) {
    text.remove_prefix(char_at(text, 0).length);
  }
  while (step.right && !text.empty() && is_space(char_before(text, text.size()).code_point)) {
    text.remove_suffix(char_before(text, text.size()).length);
  }
  return text;
}

// Rules of SentencePiece's nmt_nfkc that are not Unicode's.
void map_nmt(char32_t c, std::string& out) {
  const bool is_dropped =
      (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (is_dropped) return;
  const bool is_blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  base::append_utf8(out, is_blank ? ' ' : c);
}

// BERT's cleaning: control and format characters (as of Unicode 8) go, white space becomes spaces.
void map_clean(char32_t c, std::string& out) {
  static constexpr std::pair<char32_t, char32_t> kFormat[] = {
      {0xAD, 0xAD},        {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
      {0x180E, 0x180E},    {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x2064},   {0x2066, 0x206F},
      {0xE000, 0xF8FF},    {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0xFFFD, 0xFFFD},   {0x110BD, 0x110BD},
      {0x1BCA0, 0x1BCA3},  {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {0xF0000, 0xFFFFD},
      {0x100000, 0x10FFFD}};
  const bool is_blank = c == '\t' || c == '\n' || c == '\r';
  if (!is_blank && (c < 0x20 || (c >= 0x7F && c < 0xA0))) return;
  const bool is_format =
      c >= 0xAD && std::any_of(std::begin(kFormat), std::end(kFormat),
                               [&](const auto& range) { return c >= range.first && c <= range.second; });
  if (is_format) return;
  base::append_utf8(out, is_blank || is_space(c) ? ' ' : c);
}

void map_chinese(char32_t c, std::string& out) {
  const bool is_chinese = (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
                          (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
                          (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
                          (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  if (is_chinese) out += ' ';
  base::append_utf8(out, c);
  if (is_chinese) out += ' ';
}

// What a step makes of a text: the result's `text` is replaced, its `storage` reused.
class Application {
 public:
  explicit Application(NormalizedText& result) : result_(result) {}

  Status operator()(const NormalFormStep& step) {
    const std::string_view form = normalize(step.form, result_.text, scratch_);
    if (form.data() == result_.text.data()) return {};
    std::string storage;
    const std::string_view first = result_.text.substr(0, result_.first_bytes);
    result_.first_bytes = first_bytes_of_form(form, normalize(step.form, first, storage));
    take_scratch();
    return {};
  }
  Status operator()(const LowercaseStep&) { return map(append_lowercase); }
  Status operator()(const StripAccentsStep&) {
    return map([](char32_t c, std::string& out) {
      if (!is_combining_mark(c)) base::append_utf8(out, c);
    });
  }
  Status operator()(const StripSpaceStep& step) {
    const std::string_view stripped = strip_spaces(result_.text, step);
    const auto cut = static_cast<size_t>(stripped.data() - result_.text.data());
    result_.first_bytes -= std::min(result_.first_bytes, cut);
    result_.text = stripped;
    return {};
  }
  Status operator()(const NmtStep&) { return map(map_nmt); }
  Status operator()(const PrependStep& step) {
    if (result_.text.empty()) return {};
    scratch_ = step.text;
    scratch_ += result_.text;
    if (result_.first_bytes > 0) result_.first_bytes += step.text.size();
    take_scratch();
    return {};
  }
  void apply_rules(const PrecompiledCharsmap& map, bool by_longest) {
    scratch_ = by_longest ? map.apply_longest(result_.text) : map.apply(result_.text, result_.first_bytes);
    take_scratch();
  }
  Status operator()(const ByteAlphabetStep&) {
    scratch_ = bytes_to_alphabet(result_.text);
    result_.first_bytes = bytes_to_alphabet(result_.text.substr(0, result_.first_bytes)).size();
    take_scratch();
    return {};
  }
  Status operator()(const BertNormalizerStep& step) {
    if (step.clean_text) RAFTER_TRY(map(map_clean));
    if (step.handle_chinese_chars) RAFTER_TRY(map(map_chinese));
    if (step.strip_accents) {
      RAFTER_TRY((*this)(NormalFormStep{NormalForm::nfd}));
      RAFTER_TRY(map([](char32_t c, std::string& out) {
        if (!is_nonspacing_mark(c)) base::append_utf8(out, c);
      }));
    }
    return step.lowercase ? map(append_lowercase) : Status();
  }

  Status replace(const std::vector<TextSpan>& matches, std::string_view content) {
    if (matches.empty()) return {};
    const size_t limit = longest_result(result_.text.size());
    if (matches.size() > limit / (content.size() + 1)) return too_long();
    scratch_.clear();
    scratch_.reserve(result_.text.size() + matches.size() * content.size());
    const size_t first = result_.first_bytes;
    size_t end = 0, copied_first = 0;
    const auto copy_until = [&](size_t begin) {
      if (end < first) copied_first = scratch_.size() + std::min(begin, first) - end;
      scratch_ += result_.text.substr(end, begin - end);
    };
    for (const TextSpan& match : matches) {
      copy_until(match.begin);
      scratch_ += content;
      end = match.end;
      if (end <= first) copied_first = scratch_.size();
    }
    copy_until(result_.text.size());
    result_.first_bytes = copied_first;
    take_scratch();
    return {};
  }

  static Error too_long() {
    return Error{ErrorCode::invalid_data, "the normalizer makes far too much of a text", "", ""};
  }

 private:
  template <typename Change>
  Status map(Change change) {
    result_.first_bytes = map_characters(result_.text, result_.first_bytes, scratch_, change);
    take_scratch();
    return {};
  }

  void take_scratch() {
    result_.storage.swap(scratch_);
    result_.text = result_.storage;
  }

  NormalizedText& result_;
  std::string scratch_;
};

}  // namespace

Result<Normalizer> Normalizer::compile(const std::vector<NormalizerStep>& steps, const std::string& where) {
  Normalizer normalizer;
  for (const NormalizerStep& step : steps) {
    if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
      RAFTER_ASSIGN(Pattern pattern, Pattern::compile(replace->pattern, replace->is_regex, where));
      normalizer.steps_.emplace_back(Replace{std::move(pattern), replace->content});
    } else if (const auto* precompiled = std::get_if<PrecompiledStep>(&step)) {
      RAFTER_ASSIGN(PrecompiledCharsmap map, PrecompiledCharsmap::parse(precompiled->charsmap, where));
      normalizer.steps_.emplace_back(Rules{std::move(map), precompiled->by_longest});
    } else {
      std::visit(
          [&](const auto& plain) {
            using Plain = std::decay_t<decltype(plain)>;
            if constexpr (std::is_constructible_v<Step, Plain>) normalizer.steps_.emplace_back(plain);
          },
          step);
    }
  }
  return normalizer;
}

Status Normalizer::apply(std::string_view text, NormalizedText& result) const {
  result.text = text;
  result.first_bytes = text.empty() ? 0 : char_at(text, 0).length;
  Application apply(result);
  for (const Step& step : steps_) {
    if (const auto* replacement = std::get_if<Replace>(&step)) {
      std::vector<TextSpan> matches;
      RAFTER_TRY(replacement->pattern.find_all(result.text, matches));
      RAFTER_TRY(apply.replace(matches, replacement->content));
    } else if (const auto* rules = std::get_if<Rules>(&step)) {
      apply.apply_rules(rules->map, rules->by_longest);
    } else {
      RAFTER_TRY(std::visit(
          [&](const auto& plain) -> Status {
            using Plain = std::decay_t<decltype(plain)>;
            if constexpr (std::is_same_v<Plain, Replace> || std::is_same_v<Plain, Rules>) {
              return {};
            } else {
              return apply(plain);
            }
          },
          step));
    }
    if (result.text.size() > longest_result(text.size())) return Application::too_long();
  }
  return {};
}

}  // namespace rafter::text
