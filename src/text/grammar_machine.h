// Runs a ByteGrammar over bytes. Where the machine stands is a configuration: the set of stacks that what was
// read allows. Configurations and steps between them are remembered, so that reading a byte is a table
// look-up wherever the machine has been before.
//
// Not for several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/byte_grammar.h"

namespace rafter::text {

class GrammarMachine {
 public:
  // Two are the same configuration exactly if they are equal.
  using Configuration = int32_t;
  static constexpr Configuration kDead = 0;  // nothing can follow, and this is no end

  // One stack, from its top to its bottom: the state that reads, then those that wait for calls to return.
  using Stack = std::vector<int32_t>;

  // `grammar` must be trimmed and outlive the machine.
  GrammarMachine(const ByteGrammar& grammar, int32_t start);

  Configuration start() const { return start_; }
  Configuration advance(Configuration from, uint8_t byte) {
    const Step* step = configurations_[static_cast<size_t>(from)].steps.get();
    if (step != nullptr && (*step)[byte] >= 0) return (*step)[byte];
    return compute_step(from, byte);
  }

  // What was read may end here.
  bool is_complete(Configuration c) const { return configurations_[static_cast<size_t>(c)].is_complete; }
  // More may follow.
  bool can_continue(Configuration c) const { return !configurations_[static_cast<size_t>(c)].nodes.empty(); }

  // Where every stack or an unlimited one stands in a string of free characters: how many may still come, at
  // most; ByteGrammar::kNotFree elsewhere. What such a configuration reads within the string is known.
  int32_t free_characters(Configuration c) const {
    return configurations_[static_cast<size_t>(c)].free_characters;
  }

  // Bytes it takes, roughly. Grows with every new configuration.
  size_t memory() const { return memory_; }

  // To move a configuration into another machine of the same grammar.
  std::vector<Stack> stacks(Configuration c) const;
  Configuration from_stacks(const std::vector<Stack>& stacks, bool is_complete);

  // The most stacks of one configuration. Of an ambiguous grammar's more numerous ones the first are kept:
  // every stack can be completed, so what is lost is only a way to write something.
  static constexpr size_t kMaxStacks = 512;

 private:
  using Step = std::array<Configuration, 256>;
  struct Node {
    int32_t state, parent;  // parent: the node that waits for this one's end; -1: the bottom
  };
  struct Data {
    std::vector<int32_t> nodes;  // ascending
    bool is_complete = false;
    int32_t free_characters = ByteGrammar::kNotFree;
    std::unique_ptr<Step> steps;  // -1: not computed yet
  };

  Configuration compute_step(Configuration from, uint8_t byte);
  std::unique_ptr<Step> first_steps(Configuration from);
  void enter(int32_t state, int32_t parent);
  void visit(int32_t state, int32_t parent);
  int32_t node_of(int32_t state, int32_t parent);
  Configuration intern_entered();

  const ByteGrammar& grammar_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> node_ids_;
  std::vector<Data> configurations_;
  std::unordered_multimap<uint64_t, Configuration> configuration_ids_;  // by hash
  Configuration start_ = kDead;
  size_t memory_ = 0;

  // What the step under way has reached.
  std::vector<int32_t> entered_;
  bool entered_end_ = false;
  std::vector<std::pair<int32_t, int32_t>> pending_, visited_;  // visited_: the first few
  std::unordered_set<uint64_t> visited_keys_;                   // all, when they are more
};

}  // namespace rafter::text
