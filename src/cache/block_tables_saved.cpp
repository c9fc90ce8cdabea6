// Block tables to and from files.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "cache/block_tables.h"

namespace rafter::cache {

std::vector<BlockTables::SavedSpan> BlockTables::saved_spans(int32_t sequence) const {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  const Span& held = span(sequence);
  const int32_t* table = row(sequence);
  std::vector<SavedSpan> spans = {
      {held.length, held.first, {table + held.first, table + blocks_for(held.length)}}};
  for (const SnapshotRef& snapshot : holders_[static_cast<size_t>(sequence)])
    spans.push_back({snapshot->span.length, snapshot->span.first, snapshot->blocks});
  std::sort(spans.begin() + 1, spans.end(),
            [](const SavedSpan& a, const SavedSpan& b) { return a.length > b.length; });
  return spans;
}

namespace {

constexpr int64_t kMostPositions = int64_t{1} << 40;  // what arithmetic is safe with

}  // namespace

std::string BlockTables::fault_of(const std::vector<SavedSpan>& spans, int64_t count) const {
  if (spans.empty() || (shape_.window == 0 && spans.size() > 1)) return fmt::format("{} spans", spans.size());
  std::map<int32_t, int64_t> places;  // of each block: which of a sequence's it is
  int64_t longest = std::min(spans.front().length, kMostPositions);
  for (const SavedSpan& span : spans) {
    if (span.length <= 0 || span.length > longest || span.first < 0 || span.first > first_needed(span.length))
      return fmt::format("a span of {} positions from block {} on", span.length, span.first);
    if (static_cast<int64_t>(span.blocks.size()) != blocks_for(span.length) - span.first)
      return fmt::format("{} blocks for {} positions", span.blocks.size(), span.length);
    for (size_t i = 0; i < span.blocks.size(); ++i) {
      const int32_t block = span.blocks[i];
      const int64_t place = span.first + static_cast<int64_t>(i);
      if (block < 0 || block >= count || places.try_emplace(block, place).first->second != place)
        return fmt::format("block {} of {} at place {}", block, count, place);
    }
    // A snapshot is not longer than the one before it, and none is twice as long as another.
    longest = &span == &spans.front() ? span.length : span.length - 1;
  }
  if (static_cast<int64_t>(places.size()) != count)
    return fmt::format("{} of {} blocks are in no span", count - static_cast<int64_t>(places.size()), count);
  return "";
}

base::Status BlockTables::restore(int32_t sequence, const std::vector<SavedSpan>& spans,
                                  const std::byte* blocks) {
  RAFTER_CHECK(exists(sequence) && length(sequence) == 0, "sequence {}", sequence);
  const SavedSpan& own = spans.front();
  if (own.length > shape_.max_positions) {
    return base::Error{
        base::ErrorCode::out_of_memory,
        fmt::format("{} positions were saved and the context limit is {}", own.length, shape_.max_positions),
        "cache", "use a larger --ctx"};
  }
  const auto needed = static_cast<int64_t>(own.blocks.size());
  while (needed > store_->free_blocks() && !recent_.empty()) drop(recent_.back());
  if (needed > store_->free_blocks()) return no_blocks(needed);

  std::map<int32_t, int32_t> ids;  // in the store, by number in the file
  const auto share = [&](int32_t number) {
    const auto [found, is_new] = ids.try_emplace(number, -1);
    if (!is_new) {
      store_->add_reference(found->second);
      return found->second;
    }
    found->second = store_->acquire();
    store_->write_block(found->second, blocks + number * store_->block_bytes());
    return found->second;
  };
  for (size_t i = 0; i < own.blocks.size(); ++i)
    row(sequence)[own.first + static_cast<int64_t>(i)] = share(own.blocks[i]);
  span(sequence) = {own.length, own.first};

  const auto newest = recent_.begin();
  for (size_t i = 1; i < spans.size(); ++i) {
    const std::vector<int32_t>& wanted = spans[i].blocks;
    const auto missing =
        std::count_if(wanted.begin(), wanted.end(), [&](int32_t number) { return !ids.contains(number); });
    const auto size = static_cast<int64_t>(wanted.size());
    if (missing > store_->free_blocks() || snapshot_blocks_ + size > shape_.snapshot_blocks) continue;
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->span = {spans[i].length, spans[i].first};
    for (const int32_t number : wanted) snapshot->blocks.push_back(share(number));
    snapshot_blocks_ += size;
    snapshots(sequence).push_back(snapshot);
    recent_.insert(newest, std::move(snapshot));
  }
  return {};
}

}  // namespace rafter::cache
