// A context-free language of byte strings as a pushdown automaton: states with edges over byte ranges, and
// calls of other states that come back when those have ended. What a JSON schema is compiled to.
//
//   ByteGrammar grammar;
//   const int32_t start = grammar.add_state(), end = grammar.add_state();
//   grammar.add_edge(start, '0', '9', end);
//   grammar.set_final(end);          // the call that began at `start` may return here
//
// Recursion is a call of a state that is under way. A call that reads nothing before it calls itself again
// must be a tail call.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace rafter::text {

class ByteGrammar {
 public:
  struct Edge {
    uint8_t low, high;  // a byte in [low, high] leads to `target`
    int32_t target;
  };
  struct Call {
    int32_t start;  // the callee
    int32_t back;   // where its end leads; kTail: its end is the caller's end
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    bool is_final = false;
    // Inside a JSON string whose next characters are free: how many may still come; kAnyCharacter where such
    // a character is read by a call; kNotFree elsewhere.
    int32_t free_characters = kNotFree;
  };
  static constexpr int32_t kTail = -1;
  static constexpr int32_t kNotFree = -1;
  static constexpr int32_t kAnyCharacter = -2;
  static constexpr int32_t kUnlimited = std::numeric_limits<int32_t>::max();

  int32_t add_state() {
    states_.emplace_back();
    return static_cast<int32_t>(states_.size()) - 1;
  }
  void add_edge(int32_t from, uint8_t low, uint8_t high, int32_t to) {
    at(from).edges.push_back({low, high, to});
  }
  void add_edge(int32_t from, char byte, int32_t to) {
    add_edge(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
  }
  void add_call(int32_t from, int32_t start, int32_t back) { at(from).calls.push_back({start, back}); }
  // `from` may go on as `to` without reading anything.
  void add_jump(int32_t from, int32_t to) { add_call(from, to, kTail); }
  void set_final(int32_t state) { at(state).is_final = true; }
  void set_free_characters(int32_t state, int32_t count) { at(state).free_characters = count; }
  // The bytes of `text` one after the other; returns the last state.
  int32_t add_text(int32_t from, std::string_view text);

  // All states of another grammar; returns how far their numbers moved.
  int32_t append(const ByteGrammar& other);

  const State& operator[](int32_t state) const { return states_[static_cast<size_t>(state)]; }
  size_t size() const { return states_.size(); }

  // Removes all that cannot lead to an end, so that whatever the automaton has read can be completed.
  // Returns whether anything is left behind `start`.
  bool trim(int32_t start);

 private:
  State& at(int32_t state) { return states_[static_cast<size_t>(state)]; }

  std::vector<State> states_;
};

}  // namespace rafter::text
