// Sets of code points, as sorted ranges that do not touch.
#pragma once

#include <compare>
#include <vector>

namespace rafter::text {

struct CodePointRange {
  char32_t low, high;  // both included
  auto operator<=>(const CodePointRange&) const = default;
};

// Strings are of Unicode scalar values: surrogates are in no set.
class CodePointSet {
 public:
  CodePointSet() = default;
  // Ranges in any order, which may overlap.
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  static CodePointSet all();
  static CodePointSet single(char32_t c) { return CodePointSet({{c, c}}); }

  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t c) const;
  CodePointSet complement() const;
  CodePointSet intersect(const CodePointSet& other) const;
  CodePointSet unite(const CodePointSet& other) const;
  CodePointSet minus(const CodePointSet& other) const { return intersect(other.complement()); }

  auto operator<=>(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace rafter::text
