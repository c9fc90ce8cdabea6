#include "text/grammar_machine.h"

#include <algorithm>
#include <limits>

#include <xxhash.h>

#include "base/check.h"

namespace rafter::text {
namespace {

uint64_t key_of(int32_t state, int32_t parent) {
  return static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32 | static_cast<uint32_t>(state);
}

}  // namespace

GrammarMachine::GrammarMachine(const ByteGrammar& grammar, int32_t start) : grammar_(grammar) {
  RAFTER_CHECK(intern_entered() == kDead);
  enter(start, -1);
  start_ = intern_entered();
}

int32_t GrammarMachine::node_of(int32_t state, int32_t parent) {
  const auto [found, is_new] =
      node_ids_.try_emplace(key_of(state, parent), static_cast<int32_t>(nodes_.size()));
  if (is_new) {
    nodes_.push_back({state, parent});
    memory_ += sizeof(Node) + 64;
  }
  return found->second;
}

void GrammarMachine::visit(int32_t state, int32_t parent) {
  constexpr size_t kFew = 32;  // of which a list is the fastest set
  const std::pair<int32_t, int32_t> place(state, parent);
  if (visited_.size() < kFew) {
    if (std::find(visited_.begin(), visited_.end(), place) != visited_.end()) return;
    visited_.push_back(place);
  } else {
    if (visited_keys_.empty()) {
      for (const auto& [s, p] : visited_) visited_keys_.insert(key_of(s, p));
    }
    if (!visited_keys_.insert(key_of(state, parent)).second) return;
  }
  pending_.push_back(place);
}

// Adds every stack that stands where a byte is read and that can be reached from here without reading.
void GrammarMachine::enter(int32_t first, int32_t first_parent) {
  visit(first, first_parent);
  while (!pending_.empty()) {
    const auto [state, parent] = pending_.back();
    pending_.pop_back();
    if (entered_.size() >= kMaxStacks) continue;
    const ByteGrammar::State& data = grammar_[state];
    if (!data.edges.empty()) entered_.push_back(node_of(state, parent));
    for (const ByteGrammar::Call& call : data.calls) {
      visit(call.start, call.back == ByteGrammar::kTail ? parent : node_of(call.back, parent));
    }
    if (!data.is_final) continue;
    if (parent < 0) {
      entered_end_ = true;
    } else {
      const Node waiting = nodes_[static_cast<size_t>(parent)];
      visit(waiting.state, waiting.parent);
    }
  }
}

GrammarMachine::Configuration GrammarMachine::intern_entered() {
  std::sort(entered_.begin(), entered_.end());
  entered_.erase(std::unique(entered_.begin(), entered_.end()), entered_.end());
  const uint64_t hash =
      XXH3_64bits_withSeed(entered_.data(), entered_.size() * sizeof(int32_t), entered_end_ ? 1 : 0);
  Configuration result = -1;
  const auto [begin, end] = configuration_ids_.equal_range(hash);
  for (auto it = begin; it != end && result < 0; ++it) {
    const Data& data = configurations_[static_cast<size_t>(it->second)];
    if (data.nodes == entered_ && data.is_complete == entered_end_) result = it->second;
  }
  if (result < 0) {
    Data data;
    data.nodes = entered_;
    data.is_complete = entered_end_;
    int32_t least = ByteGrammar::kUnlimited, most = ByteGrammar::kNotFree;
    for (int32_t node : entered_) {
      const int32_t free = grammar_[nodes_[static_cast<size_t>(node)].state].free_characters;
      if (free == ByteGrammar::kAnyCharacter) continue;
      least = std::min(least, free);
      most = std::max(most, free);
    }
    const bool is_free = least != ByteGrammar::kNotFree && most != ByteGrammar::kNotFree;
    if (is_free || most == ByteGrammar::kUnlimited) data.free_characters = most;
    result = static_cast<Configuration>(configurations_.size());
    memory_ += sizeof(Data) + 64 + entered_.size() * sizeof(int32_t);
    configurations_.push_back(std::move(data));
    configuration_ids_.emplace(hash, result);
  }
  entered_.clear();
  visited_.clear();
  visited_keys_.clear();
  entered_end_ = false;
  return result;
}

// Dead for the bytes that no stack reads, still to be computed for the others.
std::unique_ptr<GrammarMachine::Step> GrammarMachine::first_steps(Configuration from) {
  auto steps = std::make_unique<Step>();
  memory_ += sizeof(Step);
  steps->fill(kDead);
  for (int32_t node : configurations_[static_cast<size_t>(from)].nodes) {
    for (const ByteGrammar::Edge& edge : grammar_[nodes_[static_cast<size_t>(node)].state].edges) {
      std::fill(steps->begin() + edge.low, steps->begin() + edge.high + 1, -1);
    }
  }
  return steps;
}

GrammarMachine::Configuration GrammarMachine::compute_step(Configuration from, uint8_t byte) {
  std::unique_ptr<Step>& steps = configurations_[static_cast<size_t>(from)].steps;
  if (steps == nullptr) {
    steps = first_steps(from);
    if ((*steps)[byte] == kDead) return kDead;
  }
  Step* const step = steps.get();  // stays where it is while the list of configurations may move
  for (size_t i = 0; i < configurations_[static_cast<size_t>(from)].nodes.size(); ++i) {
    const Node node = nodes_[static_cast<size_t>(configurations_[static_cast<size_t>(from)].nodes[i])];
    for (const ByteGrammar::Edge& edge : grammar_[node.state].edges) {
      if (edge.low <= byte && byte <= edge.high) enter(edge.target, node.parent);
    }
  }
  const Configuration to = intern_entered();
  return (*step)[byte] = to;
}

std::vector<GrammarMachine::Stack> GrammarMachine::stacks(Configuration c) const {
  std::vector<Stack> result;
  for (int32_t node : configurations_[static_cast<size_t>(c)].nodes) {
    Stack stack;
    for (int32_t at = node; at >= 0; at = nodes_[static_cast<size_t>(at)].parent) {
      stack.push_back(nodes_[static_cast<size_t>(at)].state);
    }
    result.push_back(std::move(stack));
  }
  return result;
}

GrammarMachine::Configuration GrammarMachine::from_stacks(const std::vector<Stack>& stacks,
                                                          bool is_complete) {
  for (const Stack& stack : stacks) {
    int32_t node = -1;
    for (auto state = stack.rbegin(); state != stack.rend(); ++state) node = node_of(*state, node);
    entered_.push_back(node);
  }
  entered_end_ = is_complete;
  return intern_entered();
}

}  // namespace rafter::text
