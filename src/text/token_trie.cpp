#include "text/token_trie.h"

#include <algorithm>

namespace rafter::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens) {
  std::erase_if(tokens,
                [](const auto& token) { return token.first.empty() || token.first.size() > kLongestToken; });
  std::sort(tokens.begin(), tokens.end());
  ids_.reserve(tokens.size());
  std::vector<int32_t> path;  // nodes from the top to the token before
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[static_cast<size_t>(path.back())].subtree_end = static_cast<int32_t>(nodes_.size());
    }
  };
  for (const auto& [bytes, id] : tokens) {
    const auto shared =
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin();
    close(static_cast<size_t>(shared));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<int32_t>(ids_.size()), static_cast<uint16_t>(depth + 1),
                        static_cast<uint8_t>(bytes[depth])});
    }
    ids_.push_back(id);
    before = bytes;
    longest_ = std::max(longest_, static_cast<int>(bytes.size()));
  }
  close(0);
  const auto end = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({end, static_cast<int32_t>(ids_.size()), 0, 0});
}

}  // namespace rafter::text
