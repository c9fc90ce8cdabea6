#include "text/unicode_scripts.h"

#include <algorithm>
#include <iterator>

namespace rafter::text {
namespace {

struct Run {
  char32_t first;  // to the character before the next run
  uint8_t script;
};

// Written by oracle/unicode_scripts.py.
constexpr Run kRuns[] = {
#include "text/unicode_scripts.inc"
};

}  // namespace

uint8_t script_of(char32_t character) {
  const Run* next = std::upper_bound(std::begin(kRuns), std::end(kRuns), character,
                                     [](char32_t c, const Run& run) { return c < run.first; });
  return std::prev(next)->script;
}

}  // namespace rafter::text
