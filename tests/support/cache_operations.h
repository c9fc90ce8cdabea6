// Random operations on a cache, judged by a naive append-only store: every sequence as the list of its
// tokens.
//
//   const CacheOperations done = run_cache_operations(cache, {.seed = 1, .operations = 10000});
//   EXPECT_EQ(done.fault, "");
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace rafter::testing {

using Tokens = std::vector<int32_t>;

// A cache through which rows can be written and read back, whatever it keeps of them.
class CacheUnderTest {
 public:
  virtual ~CacheUnderTest() = default;
  virtual std::optional<int32_t> create() = 0;  // nothing: every sequence is taken
  virtual void release(int32_t sequence) = 0;
  // Appends rows to a sequence that holds `before`. False: refused, nothing changed.
  virtual bool append(int32_t sequence, const Tokens& before, std::span<const int32_t> rows) = 0;
  virtual int64_t length(int32_t sequence) = 0;
  // The longest prefix of at most `length` rows that roll_back() and fork() can go back to.
  virtual int64_t reentry(int32_t sequence, int64_t length) = 0;
  virtual void roll_back(int32_t sequence, int64_t length) = 0;
  virtual std::optional<int32_t> fork(int32_t sequence, int64_t length) = 0;
  virtual bool snapshot(int32_t sequence) = 0;
  // A new sequence with what a file holds to which this one was saved. Nothing: refused.
  virtual std::optional<int32_t> save_and_load(int32_t sequence, const Tokens& tokens) = 0;
  // What is wrong with what the next row would see of a sequence that holds `tokens`; "" if nothing.
  virtual std::string fault(int32_t sequence, const Tokens& tokens) = 0;
  // What is wrong once no sequence is left (blocks that nobody gave back); "" if nothing.
  virtual std::string leak() = 0;
};

struct CacheRun {
  uint32_t seed = 1;
  int64_t operations = 1000;
  int64_t rows_per_step = 90;  // at most
};

struct CacheOperations {
  int64_t append = 0, refused = 0, roll_back = 0, fork = 0, snapshot = 0, save = 0, release = 0, create = 0;
  std::string fault;  // the first one, and after how many operations

  int64_t total() const { return append + refused + roll_back + fork + snapshot + save + release + create; }
};

class CacheOperationsRun {
 public:
  CacheOperationsRun(CacheUnderTest& cache, const CacheRun& run)
      : cache_(cache), run_(run), random_(run.seed) {}

  CacheOperations run() {
    while (done_.total() < run_.operations && done_.fault.empty()) {
      const int32_t touched = operate();
      if (touched >= 0) check(touched);
      const bool all = done_.total() % 32 == 0;  // what was done to one sequence must not show in another
      if (!sequences_.empty() && !all) check(any()->first);
      for (const auto& [sequence, tokens] : sequences_) {
        if (all) check(sequence);
      }
    }
    for (const auto& [sequence, tokens] : sequences_) cache_.release(sequence);
    if (done_.fault.empty()) done_.fault = cache_.leak();
    return done_;
  }

 private:
  using Sequences = std::map<int32_t, Tokens>;

  int64_t draw(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  Sequences::iterator any() {
    return std::next(sequences_.begin(), draw(static_cast<int64_t>(sequences_.size())));
  }

  // One operation; the sequence that it touched, −1 if none is left of it.
  int32_t operate() {
    const int64_t action = draw(22);
    if (sequences_.empty() || action == 0) return create();
    const auto it = any();
    if (action <= 10) return append(it->first, it->second);
    if (action <= 14) return roll_back(it->first, it->second);
    if (action <= 16) return fork(it->first, it->second);
    if (action <= 18) {
      cache_.snapshot(it->first);
      ++done_.snapshot;
      return it->first;
    }
    if (action <= 20) return save(it->first);
    cache_.release(it->first);
    sequences_.erase(it);
    ++done_.release;
    return -1;
  }

  // Loaded beside the one that was saved, or in its place as after a restart.
  int32_t save(int32_t sequence) {
    const Tokens tokens = sequences_.at(sequence);
    const std::optional<int32_t> loaded =
        tokens.empty() ? std::nullopt : cache_.save_and_load(sequence, tokens);
    if (!loaded) {
      ++done_.refused;
      return sequence;
    }
    ++done_.save;
    if (sequences_.contains(*loaded)) say(*loaded, "was loaded over");
    sequences_[*loaded] = tokens;
    if (draw(2) == 0) {
      cache_.release(sequence);
      sequences_.erase(sequence);
    }
    return *loaded;
  }

  int32_t create() {
    ++done_.create;
    const std::optional<int32_t> sequence = cache_.create();
    if (!sequence) return -1;
    if (sequences_.contains(*sequence)) say(*sequence, "was created twice");
    sequences_[*sequence] = {};
    return *sequence;
  }

  // One row half of the time: decoding.
  int32_t append(int32_t sequence, Tokens& tokens) {
    const int64_t count = draw(2) == 0 ? 1 : 1 + draw(run_.rows_per_step);
    Tokens rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(static_cast<int32_t>(draw(1 << 20)));
    if (!cache_.append(sequence, tokens, rows)) {
      ++done_.refused;
      return sequence;
    }
    tokens.insert(tokens.end(), rows.begin(), rows.end());
    ++done_.append;
    return sequence;
  }

  // As a verifier that rejects the newest rows, or as far as anywhere.
  int64_t earlier(int32_t sequence, const Tokens& tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    const int64_t wanted = draw(4) == 0 ? draw(length + 1) : std::max<int64_t>(0, length - draw(20));
    const int64_t reached = cache_.reentry(sequence, wanted);
    if (reached < 0 || reached > wanted) say(sequence, fmt::format("re-enters {} at {}", wanted, reached));
    return reached;
  }

  int32_t roll_back(int32_t sequence, Tokens& tokens) {
    const int64_t length = earlier(sequence, tokens);
    cache_.roll_back(sequence, length);
    tokens.resize(static_cast<size_t>(length));
    ++done_.roll_back;
    return sequence;
  }

  int32_t fork(int32_t sequence, const Tokens& tokens) {
    const int64_t length = earlier(sequence, tokens);
    const Tokens shared(tokens.begin(), tokens.begin() + length);
    ++done_.fork;
    const std::optional<int32_t> copy = cache_.fork(sequence, length);
    if (!copy) return sequence;
    sequences_[*copy] = shared;
    return *copy;
  }

  void check(int32_t sequence) {
    const Tokens& tokens = sequences_.at(sequence);
    const auto length = static_cast<int64_t>(tokens.size());
    if (cache_.length(sequence) != length) {
      return say(sequence, fmt::format("has a length of {}, not {}", cache_.length(sequence), length));
    }
    if (const std::string fault = cache_.fault(sequence, tokens); !fault.empty()) say(sequence, fault);
  }

  void say(int32_t sequence, const std::string& what) {
    if (done_.fault.empty())
      done_.fault = fmt::format("operation {}: sequence {} {}", done_.total(), sequence, what);
  }

  CacheUnderTest& cache_;
  const CacheRun run_;
  std::mt19937 random_;
  Sequences sequences_;
  CacheOperations done_;
};

inline CacheOperations run_cache_operations(CacheUnderTest& cache, const CacheRun& run) {
  return CacheOperationsRun(cache, run).run();
}

}  // namespace rafter::testing
