// The bytes of a vocabulary's tokens as a trie in one array, depth first: what follows a node up to its
// `subtree_end` begins with its bytes. A walk that gives a node up goes on there.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace rafter::text {

class TokenTrie {
 public:
  struct Node {
    int32_t subtree_end;   // index of the first node behind its subtree
    int32_t tokens_begin;  // in ids(), of the tokens that end in the subtree; at this node first
    uint16_t depth;        // bytes up to it
    uint8_t byte;
  };

  // Tokens without bytes are left out. `tokens`: (bytes, id); the bytes are only read here.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens = {});

  // The root is not among them.
  int32_t size() const { return static_cast<int32_t>(nodes_.size()) - 1; }
  // One more than there are: where the last subtree's tokens end.
  const Node& operator[](int32_t node) const { return nodes_[static_cast<size_t>(node)]; }

  // All ids, by bytes.
  const std::vector<int32_t>& ids() const { return ids_; }
  // The ids that end at a node, of those in its subtree: ids()[tokens_begin] to ids()[own_end).
  int32_t own_end(int32_t node) const { return nodes_[static_cast<size_t>(node) + 1].tokens_begin; }
  int32_t tokens_end(int32_t node) const {
    return nodes_[static_cast<size_t>(nodes_[static_cast<size_t>(node)].subtree_end)].tokens_begin;
  }
  int longest() const { return longest_; }  // bytes of the longest token

  static constexpr size_t kLongestToken = 4096;  // bytes; longer ones are left out

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  int longest_ = 0;
};

}  // namespace rafter::text
