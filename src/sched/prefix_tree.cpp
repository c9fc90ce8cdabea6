#include "sched/prefix_tree.h"

#include <algorithm>

namespace rafter::sched {

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

void PrefixTree::visit_matches(const std::string& space, std::span<const int32_t> tokens,
                               const std::function<bool(Handle, int64_t)>& visit) const {
  const auto shared_with = [&](Handle leaf) {
    return leaf->space == space ? common_prefix(leaf->tokens, tokens) : 0;
  };
  Handle after = leaves_.lower_bound(Leaf{space, {tokens.begin(), tokens.end()}, -1, false, 0});
  Handle before = after;  // the one in front of it is next on that side
  int64_t shared_before = before == leaves_.begin() ? 0 : shared_with(std::prev(before));
  int64_t shared_after = after == leaves_.end() ? 0 : shared_with(after);
  while (shared_before > 0 || shared_after > 0) {
    if (shared_after >= shared_before) {
      if (!visit(after, shared_after)) return;
      shared_after = ++after == leaves_.end() ? 0 : shared_with(after);
    } else {
      if (!visit(--before, shared_before)) return;
      shared_before = before == leaves_.begin() ? 0 : shared_with(std::prev(before));
    }
  }
}

int64_t PrefixTree::kept_tokens() const {
  int64_t total = 0;
  const Leaf* previous = nullptr;
  for (const Leaf& leaf : leaves_) {
    if (!leaf.is_kept) continue;
    total += static_cast<int64_t>(leaf.tokens.size());
    if (previous != nullptr && previous->space == leaf.space)
      total -= common_prefix(previous->tokens, leaf.tokens);
    previous = &leaf;
  }
  return total;
}

}  // namespace rafter::sched
