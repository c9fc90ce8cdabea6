#include "text/piece_trie.h"

#include <algorithm>

#include <fmt/format.h>

namespace rafter::text {
namespace {

// A stretch of the sorted pieces that have `depth` bytes in common, which lead to `node`.
struct Stretch {
  size_t begin, end;
  size_t depth;
  size_t node;
};

}  // namespace

base::Result<PieceTrie> PieceTrie::build(const TextVocabulary& vocabulary, const std::vector<bool>& is_text,
                                         const std::string& where) {
  std::vector<int32_t> sorted;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary[id];
    if (piece.size() > kLongestPiece) {
      return base::Error{
          base::ErrorCode::unsupported,
          fmt::format("piece {} has {} bytes; at most {} are supported", id, piece.size(), kLongestPiece),
          where, ""};
    }
    const bool is_wanted = is_text.empty() || is_text[static_cast<size_t>(id)];
    if (is_wanted && !piece.empty() && vocabulary.find(piece) == id) sorted.push_back(id);
  }
  std::sort(sorted.begin(), sorted.end(),
            [&](int32_t a, int32_t b) { return vocabulary[a] < vocabulary[b]; });

  PieceTrie trie;
  trie.root_.fill(-1);
  constexpr size_t kRoot = SIZE_MAX;
  std::vector<Stretch> open = {{0, sorted.size(), 0, kRoot}};
  while (!open.empty()) {
    const Stretch stretch = open.back();
    open.pop_back();
    const auto first_child = static_cast<uint32_t>(trie.nodes_.size());
    uint16_t children = 0;
    for (size_t begin = stretch.begin; begin < stretch.end; ++children) {
      const auto byte_of = [&](size_t i) {
        return static_cast<uint8_t>(vocabulary[sorted[i]][stretch.depth]);
      };
      const uint8_t byte = byte_of(begin);
      size_t end = begin + 1;
      while (end < stretch.end && byte_of(end) == byte) ++end;
      const size_t node = trie.nodes_.size();
      trie.nodes_.push_back({-1, 0, 0, byte});
      if (stretch.node == kRoot) trie.root_[byte] = static_cast<int32_t>(node);
      size_t deeper = begin;
      if (vocabulary[sorted[begin]].size() == stretch.depth + 1) trie.nodes_[node].id = sorted[deeper++];
      if (deeper < end) open.push_back({deeper, end, stretch.depth + 1, node});
      begin = end;
    }
    if (stretch.node != kRoot) {
      trie.nodes_[stretch.node].first_child = first_child;
      trie.nodes_[stretch.node].children = children;
    }
  }
  return trie;
}

}  // namespace rafter::text
