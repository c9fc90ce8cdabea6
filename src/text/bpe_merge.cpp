#include "text/bpe_merge.h"

#include <algorithm>

namespace rafter::text {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;
// Up to here rescanning an array for the best pair beats a queue.
constexpr size_t kShortWord = 32;

void merge_short(const MergeTable& table, std::vector<int32_t>& ids) {
  Merge merges[kShortWord];  // [i]: of ids[i] with ids[i + 1]
  size_t count = ids.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = table.find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    ids[best] = merges[best].merged;
    std::copy(ids.begin() + static_cast<ptrdiff_t>(best) + 2, ids.begin() + static_cast<ptrdiff_t>(count),
              ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges + best + 1, merges + count - 1, merges + best);
    --count;
    if (best > 0) merges[best - 1] = table.find(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = table.find(ids[best], ids[best + 1]);
  }
  ids.resize(count);
}

void merge_long(const MergeTable& table, WordWorkspace& workspace) {
  using Symbol = WordWorkspace::Symbol;
  std::vector<int32_t>& ids = workspace.ids;
  std::vector<Symbol>& symbols = workspace.symbols;
  std::vector<uint64_t>& queue = workspace.queue;  // a heap of rank << 32 | position, smallest first
  const auto count = static_cast<uint32_t>(ids.size());
  symbols.resize(count);
  queue.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t next = i + 1 < count ? i + 1 : kEnd;
    const uint32_t rank = next == kEnd ? kNoRank : table.find(ids[i], ids[next]).rank;
    symbols[i] = {ids[i], i == 0 ? kEnd : i - 1, next, rank};
    if (rank != kNoRank) queue.push_back(static_cast<uint64_t>(rank) << 32 | i);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  auto refresh = [&](uint32_t position) {  // the pair at `position` is a new one
    Symbol& symbol = symbols[position];
    symbol.rank = symbol.next == kEnd ? kNoRank : table.find(symbol.id, symbols[symbol.next].id).rank;
    if (symbol.rank == kNoRank) return;
    queue.push_back(static_cast<uint64_t>(symbol.rank) << 32 | position);
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto position = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    Symbol& left = symbols[position];
    // The pair that this entry was made for is gone. One of the same rank in its place has its turn now too.
    if (left.rank != rank) continue;
    Symbol& right = symbols[left.next];
    left.id = table.find(left.id, right.id).merged;
    left.next = right.next;
    right.rank = kNoRank;
    if (left.next != kEnd) symbols[left.next].previous = position;
    refresh(position);
    if (left.previous != kEnd) refresh(left.previous);
  }
  ids.clear();
  for (uint32_t i = 0; i != kEnd; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace

void merge_symbols(const MergeTable& merges, WordWorkspace& workspace) {
  if (workspace.ids.size() <= kShortWord) {
    merge_short(merges, workspace.ids);
  } else {
    merge_long(merges, workspace);
  }
}

}  // namespace rafter::text
