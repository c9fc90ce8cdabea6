#include "text/pre_tokenizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/split_behavior.h"
#include "text/unicode.h"
#include "text/unicode_scripts.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

// The first piece of `text` under a digits step.
size_t digits_piece_length(std::string_view text, bool individual) {
  size_t end = 0;
  bool in_numbers = false;
  while (end < text.size()) {
    const Char character = char_at(text, end);
    const bool is_number = is_numeric(character.code_point);
    if (end > 0 && is_number != in_numbers) break;
    in_numbers = is_number;
    end += character.length;
    if (is_number && individual) break;
  }
  return end;
}

size_t fixed_piece_length(std::string_view text, size_t characters) {
  size_t end = 0;
  for (size_t count = 0; count < characters && end < text.size(); ++count) end += char_at(text, end).length;
  return end;
}

bool is_space(char32_t c) { return (classify(c) & kSpace) != 0; }

// \w+|[^\w\s]+
std::vector<TextSpan> find_words(std::string_view text) {
  std::vector<TextSpan> words;
  bool in_word = false;
  bool after_space = true;
  for (size_t at = 0; at < text.size();) {
    const Char character = char_at(text, at);
    const bool is_blank = is_space(character.code_point);
    const bool is_word = !is_blank && is_word_character(character.code_point);
    if (!is_blank) {
      if (after_space || is_word != in_word) words.push_back({at, at});
      words.back().end = at + character.length;
    }
    in_word = is_word;
    after_space = is_blank;
    at += character.length;
  }
  return words;
}

std::vector<TextSpan> find_kind(std::string_view text, CharKind kind) {
  std::vector<TextSpan> matches;
  for (size_t at = 0; at < text.size();) {
    const Char character = char_at(text, at);
    const bool belongs =
        kind == CharKind::white_space ? is_space(character.code_point) : is_punctuation(character.code_point);
    if (belongs) matches.push_back({at, at + character.length});
    at += character.length;
  }
  return matches;
}

// Where the script changes; kAnyScript goes with what comes before it.
std::vector<TextSpan> find_scripts(std::string_view text) {
  std::vector<TextSpan> spans;
  uint8_t last = kAnyScript;
  for (size_t at = 0; at < text.size();) {
    const Char character = char_at(text, at);
    const uint8_t script = script_of(character.code_point);
    if (script != kAnyScript && script != last) {
      if (!spans.empty()) spans.back().end = at;
      spans.push_back({at, text.size()});
      last = script;
    }
    at += character.length;
  }
  return spans;
}

std::string metaspace(std::string_view text, bool is_first, const MetaspaceStep& step) {
  std::string out;
  const bool wants_one =
      step.scheme == PrependScheme::always || (step.scheme == PrependScheme::first && is_first);
  if (wants_one && text[0] != ' ' && !text.starts_with(step.replacement)) out = step.replacement;
  out.reserve(out.size() + text.size() + text.size() / 4);
  for (char c : text) {
    if (c == ' ') {
      out += step.replacement;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Status PreTokenizer::add(const PreTokenizerStep& step, Pieces pieces, const std::string& where) {
  if (const auto* digits = std::get_if<DigitsStep>(&step)) {
    steps_.emplace_back(Digits{digits->individual});
  } else if (const auto* bytes = std::get_if<ByteLevelStep>(&step)) {
    if (bytes->add_prefix_space) steps_.emplace_back(PrefixSpace{});
    if (bytes->use_regex) steps_.emplace_back(Scan{SplitScanner::gpt2});
    if (pieces == Pieces::text) steps_.emplace_back(ByteAlphabet{});
  } else if (const auto* split = std::get_if<SplitStep>(&step)) {
    const std::optional<SplitScanner> scanner =
        split->is_regex ? scanner_for_pattern(split->pattern) : std::nullopt;
    // Removing what does not match a pattern that matches everything isolates the matches.
    const bool isolates = split->behavior == SplitBehavior::isolated ||
                          (split->behavior == SplitBehavior::removed && split->inverted && scanner &&
                           covers_everything(*scanner));
    if (scanner && isolates) {
      steps_.emplace_back(Scan{*scanner});
    } else {
      RAFTER_ASSIGN(Pattern pattern, Pattern::compile(split->pattern, split->is_regex, where));
      steps_.emplace_back(PatternSplit{std::move(pattern), split->behavior, split->inverted});
    }
  } else if (const auto* fixed = std::get_if<FixedLengthStep>(&step)) {
    if (fixed->length == 0) return Error{ErrorCode::invalid_data, "pieces of no length", where, ""};
    steps_.emplace_back(FixedLength{fixed->length});
  } else if (const auto* kind = std::get_if<CharKindStep>(&step)) {
    steps_.emplace_back(*kind);
  } else if (const auto* space = std::get_if<MetaspaceStep>(&step)) {
    steps_.emplace_back(*space);
  } else if (std::holds_alternative<ScriptsStep>(step)) {
    steps_.emplace_back(ScriptsStep{});
  } else {
    steps_.emplace_back(WordsStep{});
  }
  return {};
}

Result<PreTokenizer> PreTokenizer::compile(const std::vector<PreTokenizerStep>& steps, Pieces pieces,
                                           const std::string& where) {
  constexpr size_t kMostSteps = 64;  // steps call each other
  if (steps.size() > kMostSteps) {
    return Error{ErrorCode::unsupported, fmt::format("a pre-tokenizer of {} steps", steps.size()), where, ""};
  }
  PreTokenizer result;
  for (const PreTokenizerStep& step : steps) {
    const bool is_last = &step == &steps.back();
    if (pieces == Pieces::bytes && std::holds_alternative<ByteLevelStep>(step) != is_last) {
      return Error{ErrorCode::unsupported,
                   is_last ? "a pre-tokenizer that does not end in ByteLevel"
                           : "a pre-tokenizer step behind ByteLevel",
                   where, ""};
    }
    RAFTER_TRY(result.add(step, pieces, where));
  }
  if (pieces == Pieces::bytes && steps.empty())
    return Error{ErrorCode::unsupported, "a byte-level model without a pre-tokenizer", where, ""};
  return result;
}

// Every step hands its pieces on to the next one as they come.
class PreTokenizer::Run {
 public:
  Run(const std::vector<Step>& steps, PieceSink& sink) : steps_(steps), sink_(sink) {}

  Status from(size_t step, std::string_view text, size_t first_bytes) {
    if (stopped_ || text.empty()) return {};
    if (step == steps_.size()) {
      stopped_ = !sink_.piece(text);
      return {};
    }
    return std::visit([&](const auto& kind) { return run(kind, step + 1, text, first_bytes); }, steps_[step]);
  }

 private:
  // A function of the next length makes a step; the last step of nearly every tokenizer is one.
  template <typename NextLength>
  Status run_lengths(size_t next, std::string_view text, size_t first_bytes, NextLength next_length) {
    const bool is_last = next == steps_.size();
    while (!text.empty() && !stopped_) {
      const std::string_view piece = text.substr(0, next_length(text));
      text.remove_prefix(piece.size());
      if (is_last) {
        stopped_ = !sink_.piece(piece);
      } else {
        RAFTER_TRY(from(next, piece, first_bytes));
      }
      first_bytes -= std::min(first_bytes, piece.size());
    }
    return {};
  }

  Status run_spans(size_t next, std::string_view text, size_t first_bytes,
                   const std::vector<TextSpan>& spans) {
    for (const TextSpan& span : spans) {
      RAFTER_TRY(from(next, text.substr(span.begin, span.end - span.begin),
                      first_bytes - std::min(first_bytes, span.begin)));
    }
    return {};
  }

  Status run(const Scan& scan, size_t next, std::string_view text, size_t first_bytes) {
    return run_lengths(next, text, first_bytes,
                       [&](std::string_view rest) { return first_piece_length(scan.scanner, rest); });
  }
  Status run(const Digits& digits, size_t next, std::string_view text, size_t first_bytes) {
    return run_lengths(next, text, first_bytes,
                       [&](std::string_view rest) { return digits_piece_length(rest, digits.individual); });
  }
  Status run(const FixedLength& fixed, size_t next, std::string_view text, size_t first_bytes) {
    return run_lengths(next, text, first_bytes,
                       [&](std::string_view rest) { return fixed_piece_length(rest, fixed.length); });
  }
  Status run(const PrefixSpace&, size_t next, std::string_view text, size_t first_bytes) {
    if (text[0] == ' ') return from(next, text, first_bytes);
    return from(next, " " + std::string(text), first_bytes > 0 ? first_bytes + 1 : 0);
  }
  Status run(const ByteAlphabet&, size_t next, std::string_view text, size_t first_bytes) {
    return from(next, bytes_to_alphabet(text), bytes_to_alphabet(text.substr(0, first_bytes)).size());
  }
  Status run(const PatternSplit& split, size_t next, std::string_view text, size_t first_bytes) {
    std::vector<TextSpan> matches;
    RAFTER_TRY(split.pattern.find_all(text, matches));
    return run_spans(next, text, first_bytes, split_at(text.size(), matches, split.inverted, split.behavior));
  }
  Status run(const WordsStep&, size_t next, std::string_view text, size_t first_bytes) {
    return run_spans(next, text, first_bytes, find_words(text));
  }
  Status run(const CharKindStep& kind, size_t next, std::string_view text, size_t first_bytes) {
    return run_spans(next, text, first_bytes,
                     split_at(text.size(), find_kind(text, kind.kind), false, kind.behavior));
  }
  Status run(const ScriptsStep&, size_t next, std::string_view text, size_t first_bytes) {
    return run_spans(next, text, first_bytes, find_scripts(text));
  }
  Status run(const MetaspaceStep& step, size_t next, std::string_view text, size_t first_bytes) {
    const std::string spaced = metaspace(text, first_bytes > 0, step);
    const std::string_view whole = spaced;
    if (first_bytes > 0) first_bytes = metaspace(text.substr(0, first_bytes), true, step).size();
    if (!step.split) return from(next, whole, first_bytes);
    for (size_t begin = 0; begin < whole.size();) {
      const size_t end = std::min(whole.find(step.replacement, begin + 1), whole.size());
      RAFTER_TRY(from(next, whole.substr(begin, end - begin), first_bytes - std::min(first_bytes, begin)));
      begin = end;
    }
    return {};
  }

  const std::vector<Step>& steps_;
  PieceSink& sink_;
  bool stopped_ = false;
};

Status PreTokenizer::split(std::string_view text, size_t first_bytes, PieceSink& sink) const {
  return Run(steps_, sink).from(0, text, first_bytes);
}

}  // namespace rafter::text
