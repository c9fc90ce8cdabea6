#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include "text/unicode.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

struct Part {
  TextSpan span;
  bool is_match;
};

// Matches and what lies between them, in order.
std::vector<Part> parts_of(std::string_view text, const std::vector<TextSpan>& matches, bool inverted) {
  std::vector<Part> parts;
  parts.reserve(matches.size() * 2 + 1);
  size_t end = 0;
  for (const TextSpan& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, inverted});
    parts.push_back({match, !inverted});
    end = match.end;
  }
  if (end < text.size()) parts.push_back({{end, text.size()}, inverted});
  return parts;
}

std::vector<TextSpan> merge_with_previous(const std::vector<Part>& parts) {
  std::vector<TextSpan> pieces;
  bool previous_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !previous_match && !pieces.empty()) {
      pieces.back().end = part.span.end;
    } else {
      pieces.push_back(part.span);
    }
    previous_match = part.is_match;
  }
  return pieces;
}

std::vector<TextSpan> merge_with_next(const std::vector<Part>& parts) {
  std::vector<TextSpan> pieces;  // back to front
  bool previous_match = false;
  for (size_t i = parts.size(); i-- > 0;) {
    if (parts[i].is_match && !previous_match && !pieces.empty()) {
      pieces.back().begin = parts[i].span.begin;
    } else {
      pieces.push_back(parts[i].span);
    }
    previous_match = parts[i].is_match;
  }
  return {pieces.rbegin(), pieces.rend()};
}

std::vector<TextSpan> merge_neighbours(const std::vector<Part>& parts) {
  std::vector<TextSpan> pieces;
  bool previous_match = false;
  for (const Part& part : parts) {
    if (part.is_match == previous_match && !pieces.empty()) {
      pieces.back().end = part.span.end;
    } else {
      pieces.push_back(part.span);
    }
    previous_match = part.is_match;
  }
  return pieces;
}

std::vector<TextSpan> apply_behavior(const std::vector<Part>& parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::merged_with_previous:
      return merge_with_previous(parts);
    case SplitBehavior::merged_with_next:
      return merge_with_next(parts);
    case SplitBehavior::contiguous:
      return merge_neighbours(parts);
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      break;
  }
  std::vector<TextSpan> pieces;
  pieces.reserve(parts.size());
  for (const Part& part : parts) {
    if (behavior == SplitBehavior::isolated || !part.is_match) pieces.push_back(part.span);
  }
  return pieces;
}

std::vector<TextSpan> find_literal(std::string_view text, std::string_view literal) {
  std::vector<TextSpan> matches;
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size())) {
    matches.push_back({at, at + literal.size()});
  }
  return matches;
}

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

}  // namespace

Result<PreTokenizer> PreTokenizer::compile(const std::vector<PreTokenizerStep>& steps,
                                           const std::string& where) {
  constexpr size_t kMostSteps = 64;  // steps call each other
  if (steps.size() > kMostSteps) {
    return Error{ErrorCode::unsupported, fmt::format("a pre-tokenizer of {} steps", steps.size()), where, ""};
  }
  PreTokenizer result;
  for (const PreTokenizerStep& step : steps) {
    const bool is_last = &step == &steps.back();
    if (std::holds_alternative<ByteLevelStep>(step) != is_last) {
      return Error{ErrorCode::unsupported,
                   is_last ? "a pre-tokenizer that does not end in ByteLevel"
                           : "a pre-tokenizer step behind ByteLevel",
                   where, ""};
    }
    if (const auto* digits = std::get_if<DigitsStep>(&step)) {
      result.steps_.push_back(Digits{digits->individual});
    } else if (const auto* bytes = std::get_if<ByteLevelStep>(&step)) {
      if (bytes->add_prefix_space) result.steps_.push_back(PrefixSpace{});
      if (bytes->use_regex) result.steps_.push_back(Scan{SplitScanner::gpt2});
    } else {
      const auto& split = std::get<SplitStep>(step);
      const std::optional<SplitScanner> scanner =
          split.is_regex ? scanner_for_pattern(split.pattern) : std::nullopt;
      // Removing what does not match a pattern that matches everything isolates the matches.
      const bool isolates = (split.behavior == SplitBehavior::isolated) ||
                            (split.behavior == SplitBehavior::removed && split.inverted &&
                             scanner != SplitScanner::digit_groups);
      if (scanner && isolates) {
        result.steps_.push_back(Scan{*scanner});
      } else if (split.is_regex) {
        RAFTER_ASSIGN(Regex regex, Regex::compile(split.pattern, where));
        result.steps_.push_back(PatternSplit{std::move(regex), split.behavior, split.inverted});
      } else if (split.pattern.empty()) {
        return Error{ErrorCode::invalid_data, "a Split on an empty string", where, ""};
      } else {
        result.steps_.push_back(PatternSplit{split.pattern, split.behavior, split.inverted});
      }
    }
  }
  if (steps.empty())
    return Error{ErrorCode::unsupported, "a byte-level model without a pre-tokenizer", where, ""};
  return result;
}

Status PreTokenizer::split(std::string_view text, PieceSink& sink) const {
  return text.empty() ? Status() : run(0, text, sink);
}

Status PreTokenizer::run(size_t step, std::string_view text, PieceSink& sink) const {
  if (step == steps_.size()) {
    sink.piece(text);
    return {};
  }
  // A function of the next length makes a step; the last step of nearly every tokenizer is one.
  auto run_pieces = [&](auto next_length) -> Status {
    const bool is_last = step + 1 == steps_.size();
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, next_length(text));
      text.remove_prefix(piece.size());
      if (is_last) {
        sink.piece(piece);
      } else {
        RAFTER_TRY(run(step + 1, piece, sink));
      }
    }
    return {};
  };
  return std::visit(
      Overloaded{
          [&](const Scan& scan) {
            return run_pieces([&](std::string_view rest) { return first_piece_length(scan.scanner, rest); });
          },
          [&](const Digits& digits) {
            return run_pieces(
                [&](std::string_view rest) { return digits_piece_length(rest, digits.individual); });
          },
          [&](const PrefixSpace&) {
            return text[0] == ' ' ? run(step + 1, text, sink) : run(step + 1, " " + std::string(text), sink);
          },
          [&](const PatternSplit& split) -> Status {
            std::vector<TextSpan> matches;
            if (const auto* regex = std::get_if<Regex>(&split.pattern)) {
              RAFTER_TRY(regex->find_all(text, matches));
            } else {
              matches = find_literal(text, std::get<std::string>(split.pattern));
            }
            for (const TextSpan& span :
                 apply_behavior(parts_of(text, matches, split.inverted), split.behavior)) {
              if (span.end == span.begin) continue;
              RAFTER_TRY(run(step + 1, text.substr(span.begin, span.end - span.begin), sink));
            }
            return {};
          },
      },
      steps_[step]);
}

}  // namespace rafter::text
