#include "text/split_behavior.h"

namespace rafter::text {
namespace {

struct Part {
  TextSpan span;
  bool is_match;
};

// Matches and what lies between them, in order.
std::vector<Part> parts_of(size_t size, const std::vector<TextSpan>& matches, bool inverted) {
  std::vector<Part> parts;
  parts.reserve(matches.size() * 2 + 1);
  size_t end = 0;
  for (const TextSpan& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, inverted});
    parts.push_back({match, !inverted});
    end = match.end;
  }
  if (end < size) parts.push_back({{end, size}, inverted});
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

}  // namespace

std::vector<TextSpan> split_at(size_t size, const std::vector<TextSpan>& matches, bool inverted,
                               SplitBehavior behavior) {
  const std::vector<Part> parts = parts_of(size, matches, inverted);
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

}  // namespace rafter::text
