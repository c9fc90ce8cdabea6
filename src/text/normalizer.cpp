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
// False: nothing took the place of the first one.
template <typename Change>
bool map_characters(std::string_view text, std::string& out, Change change) {
  out.clear();
  out.reserve(text.size());
  bool keeps_start = true;
  for (size_t position = 0; position < text.size();) {
    const Char character = char_at(text, position);
    change(character.code_point, out);
    if (position == 0) keeps_start = !out.empty();
    position += character.length;
  }
  return keeps_start;
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
    if (form.data() == scratch_.data()) take_scratch();
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
    if (stripped.data() != result_.text.data()) result_.keeps_start = false;
    result_.text = stripped;
    return {};
  }
  Status operator()(const NmtStep&) { return map(map_nmt); }
  Status operator()(const PrependStep& step) {
    if (result_.text.empty()) return {};
    scratch_ = step.text;
    scratch_ += result_.text;
    take_scratch();
    return {};
  }
  void apply_rules(const PrecompiledCharsmap& map, bool by_longest) {
    scratch_ = by_longest ? map.apply_longest(result_.text) : map.apply(result_.text);
    take_scratch();
  }
  Status operator()(const ByteAlphabetStep&) {
    scratch_ = bytes_to_alphabet(result_.text);
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
    if (content.empty() && matches.front().begin == 0 && matches.front().end > 0) result_.keeps_start = false;
    scratch_.clear();
    scratch_.reserve(result_.text.size() + matches.size() * content.size());
    size_t end = 0;
    for (const TextSpan& match : matches) {
      scratch_ += result_.text.substr(end, match.begin - end);
      scratch_ += content;
      end = match.end;
    }
    scratch_ += result_.text.substr(end);
    take_scratch();
    return {};
  }

  static Error too_long() {
    return Error{ErrorCode::invalid_data, "the normalizer makes far too much of a text", "", ""};
  }

 private:
  template <typename Change>
  Status map(Change change) {
    if (!map_characters(result_.text, scratch_, change)) result_.keeps_start = false;
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
  result.keeps_start = true;
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
