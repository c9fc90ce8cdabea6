// Planted faults that random operations on caches must show: in a ring of a window, and in tables of blocks
// that sequences share. Both are small caches of their own, right unless a fault is asked for.
#include <gtest/gtest.h>

#include "tests/support/cache_operations.h"

namespace rafter::testing {
namespace {

constexpr int32_t kSequences = 5;
constexpr int64_t kRowsPerStep = 20;

// A ring per sequence that holds a window and the rows of one step.
class Rings : public CacheUnderTest {
 public:
  enum class Fault {
    none,
    no_room_for_the_step,
    forgets_what_it_overwrote,
    one_too_few,
    saves_without_the_newest_row,
    loads_as_if_nothing_was_rolled_back
  };
  explicit Rings(Fault fault)
      : fault_(fault),
        slots_(static_cast<size_t>(kWindow + (fault == Fault::no_room_for_the_step ? 0 : kRowsPerStep))) {}

  std::optional<int32_t> create() override {
    for (int32_t s = 0; s < kSequences; ++s) {
      if (rings_.contains(s)) continue;
      rings_[s] = {Tokens(slots_, -1), 0, 0};
      return s;
    }
    return std::nullopt;
  }
  void release(int32_t sequence) override { rings_.erase(sequence); }
  bool append(int32_t sequence, const Tokens&, std::span<const int32_t> rows) override {
    Ring& ring = rings_.at(sequence);
    for (int32_t row : rows) ring.rows[static_cast<size_t>(ring.length++) % slots_] = row;
    ring.written = std::max(ring.written, ring.length);
    return true;
  }
  int64_t length(int32_t sequence) override { return rings_.at(sequence).length; }
  int64_t reentry(int32_t sequence, int64_t length) override {
    const Ring& ring = rings_.at(sequence);
    const int64_t written = fault_ == Fault::forgets_what_it_overwrote ? ring.length : ring.written;
    const auto room = static_cast<int64_t>(
        fault_ == Fault::no_room_for_the_step ? kWindow + kRowsPerStep : static_cast<int64_t>(slots_));
    const int64_t slack = fault_ == Fault::one_too_few ? 1 : 0;
    return std::max<int64_t>(0, length - kWindow + 1) >= written - room - slack ? length : 0;
  }
  void roll_back(int32_t sequence, int64_t length) override {
    Ring& ring = rings_.at(sequence);
    ring.length = length;
    if (length == 0) ring.written = 0;
  }
  std::optional<int32_t> fork(int32_t sequence, int64_t length) override {
    const std::optional<int32_t> copy = create();
    if (!copy) return copy;
    rings_[*copy] = rings_.at(sequence);
    roll_back(*copy, length);
    return copy;
  }
  bool snapshot(int32_t) override { return false; }
  std::optional<int32_t> save_and_load(int32_t sequence, const Tokens&) override {
    const std::optional<int32_t> copy = create();
    if (!copy) return copy;
    Ring& loaded = rings_[*copy] = rings_.at(sequence);
    if (fault_ == Fault::saves_without_the_newest_row)
      loaded.rows[static_cast<size_t>(loaded.length - 1) % slots_] = -1;
    if (fault_ == Fault::loads_as_if_nothing_was_rolled_back) loaded.written = loaded.length;
    return copy;
  }
  std::string fault(int32_t sequence, const Tokens& tokens) override {
    const Ring& ring = rings_.at(sequence);
    for (int64_t p = std::max<int64_t>(0, ring.length - kWindow + 1); p < ring.length; ++p) {
      if (ring.rows[static_cast<size_t>(p) % slots_] != tokens[static_cast<size_t>(p)])
        return fmt::format("has lost position {} of {}", p, ring.length);
    }
    return "";
  }
  std::string leak() override { return rings_.empty() ? "" : "sequences are left"; }

 private:
  static constexpr int64_t kWindow = 30;
  struct Ring {
    Tokens rows;
    int64_t length = 0, written = 0;  // written: the end of the furthest row, rolled back or not
  };
  Fault fault_;
  size_t slots_;
  std::map<int32_t, Ring> rings_;
};

// Tables of blocks that count their owners. Blocks that a window of 30 has left behind are given back.
class Tables : public CacheUnderTest {
 public:
  enum class Fault {
    none,
    writes_into_a_shared_block,
    gives_back_too_early,
    counts_a_fork_once,
    keeps_a_block,
    loads_into_the_saved_blocks,
    saves_whole_blocks_only,
    loads_behind_the_window
  };
  explicit Tables(Fault fault) : fault_(fault) {}

  std::optional<int32_t> create() override {
    for (int32_t s = 0; s < kSequences; ++s) {
      if (tables_.contains(s)) continue;
      tables_[s] = {};
      return s;
    }
    return std::nullopt;
  }
  void release(int32_t sequence) override {
    roll_back(sequence, 0);
    tables_.erase(sequence);
  }
  bool append(int32_t sequence, const Tokens&, std::span<const int32_t> rows) override {
    Table& table = tables_.at(sequence);
    give_back(table);
    for (int32_t row : rows) {
      const auto block = static_cast<size_t>(table.length / kBlock);
      if (block == table.blocks.size()) {
        table.blocks.push_back(acquire());
      } else if (owners_[table.blocks[block]] > 1 && fault_ != Fault::writes_into_a_shared_block) {
        const size_t copy = acquire();
        blocks_[copy] = blocks_[table.blocks[block]];
        drop(table.blocks[block]);
        table.blocks[block] = copy;
      }
      blocks_[table.blocks[block]][static_cast<size_t>(table.length++ % kBlock)] = row;
    }
    return true;
  }
  int64_t length(int32_t sequence) override { return tables_.at(sequence).length; }
  int64_t reentry(int32_t sequence, int64_t length) override {
    return first_seen(length) / kBlock >= tables_.at(sequence).first ? length : 0;
  }
  void roll_back(int32_t sequence, int64_t length) override {
    Table& table = tables_.at(sequence);
    const int64_t kept = length == 0 ? table.first : (length + kBlock - 1) / kBlock;
    for (auto block = static_cast<size_t>(kept); block < table.blocks.size(); ++block)
      if (fault_ != Fault::keeps_a_block || length > 0) drop(table.blocks[block]);
    table.blocks.resize(static_cast<size_t>(length == 0 ? 0 : kept));
    table.length = length;
    if (length == 0) table.first = 0;
  }
  std::optional<int32_t> fork(int32_t sequence, int64_t length) override {
    const std::optional<int32_t> copy = create();
    if (!copy || length == 0) return copy;
    Table& table = tables_.at(*copy);
    table = tables_.at(sequence);
    table.length = length;
    table.blocks.resize(static_cast<size_t>((length + kBlock - 1) / kBlock));
    for (auto block = static_cast<size_t>(table.first); block < table.blocks.size(); ++block)
      if (fault_ != Fault::counts_a_fork_once) ++owners_[table.blocks[block]];
    return copy;
  }
  bool snapshot(int32_t) override { return false; }
  std::optional<int32_t> save_and_load(int32_t sequence, const Tokens&) override {
    const std::optional<int32_t> copy = create();
    if (!copy) return copy;
    Table& table = tables_.at(*copy);
    table = tables_.at(sequence);
    if (fault_ == Fault::loads_into_the_saved_blocks) return copy;
    for (auto place = static_cast<size_t>(table.first); place < table.blocks.size(); ++place) {
      const size_t saved = table.blocks[place];
      table.blocks[place] = acquire();
      const bool is_whole = static_cast<int64_t>(place + 1) * kBlock <= table.length;
      if (is_whole || fault_ != Fault::saves_whole_blocks_only) blocks_[table.blocks[place]] = blocks_[saved];
    }
    if (fault_ == Fault::loads_behind_the_window) table.first = 0;
    return copy;
  }
  std::string fault(int32_t sequence, const Tokens& tokens) override {
    const Table& table = tables_.at(sequence);
    for (int64_t p = first_seen(table.length); p < table.length; ++p) {
      const Tokens& block = blocks_[table.blocks[static_cast<size_t>(p / kBlock)]];
      if (block[static_cast<size_t>(p % kBlock)] != tokens[static_cast<size_t>(p)])
        return fmt::format("has lost position {} of {}", p, table.length);
    }
    return "";
  }
  std::string leak() override {
    for (int owners : owners_)
      if (owners > 0) return "a block is still owned";
    return "";
  }

 private:
  static constexpr int64_t kBlock = 8, kWindow = 30;
  struct Table {
    std::vector<size_t> blocks;
    int64_t length = 0, first = 0;  // first: of the blocks that are held
  };

  static int64_t first_seen(int64_t length) { return std::max<int64_t>(0, length - kWindow + 1); }
  // Before a step, so that its rows can be taken back.
  void give_back(Table& table) {
    const int64_t early = fault_ == Fault::gives_back_too_early ? 1 : 0;
    const int64_t first = std::min(first_seen(table.length) / kBlock + early, table.length / kBlock);
    for (; table.first < first; ++table.first) drop(table.blocks[static_cast<size_t>(table.first)]);
  }
  size_t acquire() {
    const auto free = std::find(owners_.begin(), owners_.end(), 0);
    const auto block = static_cast<size_t>(free - owners_.begin());
    if (free == owners_.end()) {
      owners_.push_back(0);
      blocks_.emplace_back();
    }
    owners_[block] = 1;
    blocks_[block].assign(kBlock, -1);
    return block;
  }
  void drop(size_t block) { owners_[block] = std::max(0, owners_[block] - 1); }

  Fault fault_;
  std::vector<int> owners_;
  std::vector<Tokens> blocks_;
  std::map<int32_t, Table> tables_;
};

template <typename Cache>
std::string fault_of(typename Cache::Fault fault) {
  Cache cache(fault);
  return run_cache_operations(cache, {.operations = 4000, .rows_per_step = kRowsPerStep}).fault;
}

TEST(CacheMutants, AWindowsRingThatIsWrongIsCaught) {
  ASSERT_EQ(fault_of<Rings>(Rings::Fault::none), "");
  EXPECT_NE(fault_of<Rings>(Rings::Fault::no_room_for_the_step), "") << "a ring trimmed past its window";
  EXPECT_NE(fault_of<Rings>(Rings::Fault::forgets_what_it_overwrote), "");
  EXPECT_NE(fault_of<Rings>(Rings::Fault::one_too_few), "");
  EXPECT_NE(fault_of<Rings>(Rings::Fault::saves_without_the_newest_row), "");
  EXPECT_NE(fault_of<Rings>(Rings::Fault::loads_as_if_nothing_was_rolled_back), "");
}

TEST(CacheMutants, TablesThatAreWrongAreCaught) {
  ASSERT_EQ(fault_of<Tables>(Tables::Fault::none), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::writes_into_a_shared_block), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::gives_back_too_early), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::counts_a_fork_once), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::keeps_a_block), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::loads_into_the_saved_blocks), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::saves_whole_blocks_only), "");
  EXPECT_NE(fault_of<Tables>(Tables::Fault::loads_behind_the_window), "");
}

}  // namespace
}  // namespace rafter::testing
