// Which sequences of the engine hold which tokens, so that a prompt finds the longest prefix that is computed
// already: those of requests under way and those kept after their requests.
//
// The tree is kept as the ordered list of its leaves: in lexicographic order the sequences that share most
// with a prompt are its neighbours, and what they share falls from there outwards. Inner nodes need no record
// of their own: the blocks of a shared prefix are shared (and counted) by the engine, which copies the tail
// of a block when one of its owners writes into it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace rafter::sched {

class PrefixTree {
 public:
  struct Leaf {
    std::string space;            // leaves of other spaces are never found
    std::vector<int32_t> tokens;  // of a request under way: its prompt, which need not be computed yet
    int32_t sequence = -1;
    bool is_kept = false;           // after its request; false: a request still appends to it
    mutable int64_t rank = 0;       // of kept leaves: the lowest gives way first
    mutable bool is_saved = false;  // in a file, or is not to be
  };
  struct Order {
    bool operator()(const Leaf& a, const Leaf& b) const {
      return a.space != b.space ? a.space < b.space : a.tokens < b.tokens;
    }
  };
  using Leaves = std::multiset<Leaf, Order>;
  using Handle = Leaves::const_iterator;  // valid until the leaf is erased

  Handle insert(Leaf leaf) { return leaves_.insert(std::move(leaf)); }
  void erase(Handle leaf) { leaves_.erase(leaf); }

  // Calls visit(leaf, shared tokens) for leaves that share at least one token with these, most first, until
  // it returns false.
  void visit_matches(const std::string& space, std::span<const int32_t> tokens,
                     const std::function<bool(Handle, int64_t)>& visit) const;

  const Leaves& leaves() const { return leaves_; }
  Handle end() const { return leaves_.end(); }
  // Tokens of kept leaves, shared ones counted once.
  int64_t kept_tokens() const;

 private:
  Leaves leaves_;
};

// How many tokens two sequences have in common from the start.
int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace rafter::sched
