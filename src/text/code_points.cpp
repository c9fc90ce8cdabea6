#include "text/code_points.h"

#include <algorithm>

namespace rafter::text {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  const auto add = [this](char32_t low, char32_t high) {
    if (low > high) return;
    if (!ranges_.empty() && low <= ranges_.back().high + 1) {
      ranges_.back().high = std::max(ranges_.back().high, high);
    } else {
      ranges_.push_back({low, high});
    }
  };
  for (const CodePointRange& range : ranges) {
    add(range.low, std::min<char32_t>(range.high, kFirstSurrogate - 1));
    add(std::max<char32_t>(range.low, kLastSurrogate + 1), std::min(range.high, kLast));
  }
}

CodePointSet CodePointSet::all() { return CodePointSet({{0, kLast}}); }

bool CodePointSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CodePointRange& range) { return range.low <= c && c <= range.high; });
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> rest;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.low > next) rest.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLast) rest.push_back({next, kLast});
  return CodePointSet(std::move(rest));
}

CodePointSet CodePointSet::intersect(const CodePointSet& other) const {
  std::vector<CodePointRange> common;
  for (const CodePointRange& a : ranges_) {
    for (const CodePointRange& b : other.ranges_) {
      if (a.low <= b.high && b.low <= a.high)
        common.push_back({std::max(a.low, b.low), std::min(a.high, b.high)});
    }
  }
  return CodePointSet(std::move(common));
}

CodePointSet CodePointSet::unite(const CodePointSet& other) const {
  std::vector<CodePointRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(ranges));
}

}  // namespace rafter::text
