#include "text/byte_grammar.h"

#include <algorithm>

namespace rafter::text {

int32_t ByteGrammar::add_text(int32_t from, std::string_view text) {
  for (char byte : text) {
    const int32_t next = add_state();
    add_edge(from, byte, next);
    from = next;
  }
  return from;
}

int32_t ByteGrammar::append(const ByteGrammar& other) {
  const auto offset = static_cast<int32_t>(states_.size());
  states_.insert(states_.end(), other.states_.begin(), other.states_.end());
  for (size_t i = static_cast<size_t>(offset); i < states_.size(); ++i) {
    for (Edge& edge : states_[i].edges) edge.target += offset;
    for (Call& call : states_[i].calls) {
      call.start += offset;
      if (call.back != kTail) call.back += offset;
    }
  }
  return offset;
}

bool ByteGrammar::trim(int32_t start) {
  // What may end is found from its ends backwards: each state is looked at again when one that it needs ends.
  std::vector<std::vector<int32_t>> users(states_.size());
  std::vector<bool> ends(states_.size());
  std::vector<int32_t> fresh;
  const auto may_end = [&](int32_t state) { return state == kTail || ends[static_cast<size_t>(state)]; };
  const auto check = [&](int32_t index) {
    const State& state = at(index);
    const bool good = state.is_final ||
                      std::any_of(state.edges.begin(), state.edges.end(),
                                  [&](const Edge& edge) { return may_end(edge.target); }) ||
                      std::any_of(state.calls.begin(), state.calls.end(), [&](const Call& call) {
                        return may_end(call.start) && may_end(call.back);
                      });
    if (!good || ends[static_cast<size_t>(index)]) return;
    ends[static_cast<size_t>(index)] = true;
    fresh.push_back(index);
  };
  for (int32_t index = 0; index < static_cast<int32_t>(states_.size()); ++index) {
    for (const Edge& edge : at(index).edges) users[static_cast<size_t>(edge.target)].push_back(index);
    for (const Call& call : at(index).calls) {
      users[static_cast<size_t>(call.start)].push_back(index);
      if (call.back != kTail) users[static_cast<size_t>(call.back)].push_back(index);
    }
  }
  for (int32_t index = 0; index < static_cast<int32_t>(states_.size()); ++index) check(index);
  while (!fresh.empty()) {
    const int32_t ended = fresh.back();
    fresh.pop_back();
    for (int32_t user : users[static_cast<size_t>(ended)]) check(user);
  }
  for (State& state : states_) {
    std::erase_if(state.edges, [&](const Edge& edge) { return !may_end(edge.target); });
    std::erase_if(state.calls, [&](const Call& call) { return !may_end(call.start) || !may_end(call.back); });
  }
  return may_end(start);
}

}  // namespace rafter::text
