#include "text/character_automaton.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/utf8.h"

namespace rafter::text {
namespace {

base::Error too_large() {
  return {base::ErrorCode::unsupported, "describes strings by too many states", "", "make it simpler"};
}

// Numbers pairs of things in the order in which they are met.
class PairNumbers {
 public:
  int32_t of(int32_t a, int32_t b) {
    const auto [found, is_new] = numbers_.try_emplace({a, b}, static_cast<int32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(a, b);
    return found->second;
  }
  std::vector<std::pair<int32_t, int32_t>> pairs;

 private:
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers_;
};

}  // namespace

CharacterAutomaton CharacterAutomaton::from_strings(const std::vector<std::string>& texts,
                                                    bool is_complement) {
  CharacterAutomaton result;
  std::vector<std::map<char32_t, int32_t>> next(1);
  std::vector<bool> ends(1);
  for (std::string_view text : texts) {
    size_t at = 0;
    while (!text.empty()) {
      const base::Utf8Step step = base::decode_utf8(text);
      text.remove_prefix(step.length);
      const auto [found, is_new] = next[at].try_emplace(step.code_point, static_cast<int32_t>(next.size()));
      at = static_cast<size_t>(found->second);
      if (is_new) next.emplace_back(), ends.push_back(false);
    }
    ends[at] = true;
  }
  const auto other = static_cast<int32_t>(next.size());  // none of the texts begins so
  for (size_t i = 0; i < next.size(); ++i) {
    State state;
    state.accepts = ends[i] != is_complement;
    std::vector<CodePointRange> known;
    for (const auto& [character, to] : next[i]) {
      state.edges.emplace_back(CodePointSet::single(character), to);
      known.push_back({character, character});
    }
    if (is_complement) state.edges.emplace_back(CodePointSet(known).complement(), other);
    result.states_.push_back(std::move(state));
  }
  if (is_complement) result.states_.push_back({{}, true, true});
  return result;
}

// State n: the last n characters are the beginning of the text.
CharacterAutomaton CharacterAutomaton::without(std::string_view text) {
  CharacterAutomaton result;
  const auto matched_behind = [&](size_t matched, char c) {
    std::string seen(text.substr(0, matched));
    seen += c;
    while (!text.starts_with(seen)) seen.erase(0, 1);
    return seen.size();
  };
  for (size_t matched = 0; matched < text.size(); ++matched) {
    State state{{}, true, false};
    CodePointSet known;
    for (const char c : text) {
      const CodePointSet one = CodePointSet::single(static_cast<unsigned char>(c));
      const size_t next = matched_behind(matched, c);
      if (known.contains(static_cast<unsigned char>(c))) continue;
      known = known.unite(one);
      if (next < text.size()) state.edges.emplace_back(one, static_cast<int32_t>(next));
    }
    state.edges.emplace_back(known.complement(), 0);
    result.states_.push_back(std::move(state));
  }
  return result;
}

base::Result<CharacterAutomaton> CharacterAutomaton::intersect(const CharacterAutomaton& other) const {
  CharacterAutomaton result;
  PairNumbers numbers;
  numbers.of(0, 0);
  const std::vector<std::pair<CodePointSet, int32_t>> loop = {{CodePointSet::all(), -1}};
  for (size_t i = 0; i < numbers.pairs.size(); ++i) {
    if (i >= kMostStates) return too_large();
    const auto [a, b] = numbers.pairs[i];
    const State &left = states_[static_cast<size_t>(a)], &right = other.states_[static_cast<size_t>(b)];
    State state;
    state.accepts = left.accepts && right.accepts;
    state.is_free = left.is_free && right.is_free;
    if (!state.is_free) {
      for (const auto& [left_set, left_to] : left.is_free ? loop : left.edges) {
        for (const auto& [right_set, right_to] : right.is_free ? loop : right.edges) {
          CodePointSet both = left_set.intersect(right_set);
          if (both.empty()) continue;
          state.edges.emplace_back(std::move(both),
                                   numbers.of(left_to < 0 ? a : left_to, right_to < 0 ? b : right_to));
        }
      }
    }
    result.states_.push_back(std::move(state));
  }
  return result;
}

base::Result<CharacterAutomaton> CharacterAutomaton::with_length(int32_t least, int32_t most) const {
  CharacterAutomaton result;
  PairNumbers numbers;
  numbers.of(0, 0);
  const bool is_limited = most != ByteGrammar::kUnlimited;
  const int32_t last = is_limited ? most : least;
  const std::vector<std::pair<CodePointSet, int32_t>> loop = {{CodePointSet::all(), -1}};
  for (size_t i = 0; i < numbers.pairs.size(); ++i) {
    if (i >= kMostStates) return too_large();
    const auto [at, count] = numbers.pairs[i];
    const State& from = states_[static_cast<size_t>(at)];
    State state;
    state.accepts = from.accepts && count >= least;
    state.is_free = from.is_free && count >= least && !is_limited;
    if (!state.is_free && !(is_limited && count == last)) {
      for (const auto& [set, to] : from.is_free ? loop : from.edges) {
        state.edges.emplace_back(set, numbers.of(to < 0 ? at : to, std::min(count + 1, last)));
      }
    }
    result.states_.push_back(std::move(state));
  }
  return result;
}

int32_t CharacterAutomaton::write(ByteGrammar& grammar, JsonCharacters& characters) const {
  std::vector<int32_t> written;
  const int32_t end = grammar.add_state();
  grammar.set_final(end);
  for (const State& state : states_) {
    written.push_back(state.is_free ? add_free_string_body(grammar, characters, 0, ByteGrammar::kUnlimited)
                                    : grammar.add_state());
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].is_free) continue;
    for (const auto& [set, to] : states_[i].edges) {
      characters.add_edge(written[i], set, written[static_cast<size_t>(to)]);
    }
    if (states_[i].accepts) characters.add_close(written[i], end);
  }
  return written.front();
}

bool CharacterAutomaton::accepts(std::u32string_view text) const {
  size_t at = 0;
  for (char32_t c : text) {
    const State& state = states_[at];
    if (state.is_free) return true;
    const auto edge = std::find_if(state.edges.begin(), state.edges.end(),
                                   [c](const auto& candidate) { return candidate.first.contains(c); });
    if (edge == state.edges.end()) return false;
    at = static_cast<size_t>(edge->second);
  }
  return states_[at].accepts;
}

}  // namespace rafter::text
