// Regular languages of character strings as deterministic automata over code points: what a JSON string may
// say, before the question of how it is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/code_points.h"
#include "text/json_characters.h"

namespace rafter::text {

class CharacterAutomaton {
 public:
  struct State {
    std::vector<std::pair<CodePointSet, int32_t>> edges;  // the sets of a state are disjoint
    bool accepts = false;
    bool is_free = false;  // accepts whatever follows; has no edges
  };

  // The strings in which an ECMA-262 regular expression finds a match: it may begin and end anywhere unless
  // anchored. Characters, classes, groups, |, quantifiers, ^ and $ are read; look-around, back-references, \b
  // and \p are not (unsupported), nor is what would take too many states.
  static base::Result<CharacterAutomaton> from_pattern(std::string_view pattern);

  // Exactly these strings, of valid UTF-8; all others if `is_complement`.
  static CharacterAutomaton from_strings(const std::vector<std::string>& texts, bool is_complement);

  // The strings that do not hold `text`, of ASCII, and do not make it sooner when it follows them. No
  // beginning of `text` may be its end.
  static CharacterAutomaton without(std::string_view text);

  // Both at once; of those of `least` to `most` characters. Error (unsupported): too many states.
  base::Result<CharacterAutomaton> intersect(const CharacterAutomaton& other) const;
  base::Result<CharacterAutomaton> with_length(int32_t least, int32_t most) const;

  // The string from behind its opening quote to behind its closing one. Returns the first state. In a raw
  // notation no state may be free.
  int32_t write(ByteGrammar& grammar, JsonCharacters& characters) const;

  bool accepts(std::u32string_view text) const;
  const std::vector<State>& states() const { return states_; }  // the first is where it starts

  static constexpr size_t kMostStates = 20'000;

 private:
  friend class PatternCompiler;

  std::vector<State> states_;
};

}  // namespace rafter::text
