// Random operations on every kind of cache against a naive append-only store. A short form; the long one is
//
//   RAFTER_CACHE_OPERATIONS=100000 RAFTER_CACHE_RECORD=FILE build/asan/tests/cache_operations_test
//
// whose record is bench/records/cache-operations.json (scripts/cache-operations writes it).
#include "tests/support/cache_operations.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "cache/kv_cache.h"
#include "cache/recurrent_store.h"
#include "kernels/cpu/cpu_kernels.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using kernels::kBlockPositions;
using kernels::RecurrentShape;

constexpr int32_t kSequences = 6;
constexpr int64_t kMaxPositions = 700, kRowsPerStep = 90;

// A file through which sequences go, and what is at hand while one is read.
class ThroughFile {
 public:
  cache::SequenceWriter writer(const Tokens& tokens) {
    return cache::SequenceWriter::create(path_, {{}, "", tokens}).value();
  }
  void reopen() {
    file = cache::SequenceFile::open(path_).value();
    body = file.checked_body().value();
  }

  cache::SequenceFile file;
  cache::SequenceBody body{{}};

 private:
  TempFolder folder_;
  std::string path_ = folder_ / "sequence";
};

// Keys and values, written and read through the tables as kernels do.
class KvUnderTest : public CacheUnderTest {
 public:
  // `reads`: which layer's keys each layer of the model reads; sharers read a donor's. `codes`: instead of
  // elements, by layer.
  KvUnderTest(std::vector<int64_t> windows, std::vector<int32_t> reads,
              std::vector<kernels::KvCodes> codes = {})
      : windows_(windows), reads_(reads) {
    std::vector<cache::LayerShape> shapes;
    codes.resize(windows.size());
    for (size_t layer = 0; layer < windows.size(); ++layer)
      shapes.push_back({2, 8, windows[layer], codes[layer]});
    int64_t bytes = 0;  // for about three of the six sequences, so that some are refused
    for (const cache::LayerShape& shape : shapes)
      bytes += cache::BlockStore::bytes_per_block({shape}, tensor::DType::f32) * 36;
    cache_ =
        cache::KvCache::create(shapes, {tensor::DType::f32, kSequences, kMaxPositions, kRowsPerStep, bytes})
            .value();
  }

  std::optional<int32_t> create() override {
    const auto created = cache_.create_sequence();
    return created.ok() ? std::optional(*created) : std::nullopt;
  }
  void release(int32_t sequence) override { cache_.release(sequence); }
  bool append(int32_t sequence, const Tokens& before, std::span<const int32_t> rows) override {
    if (!cache_.extend(sequence, static_cast<int64_t>(rows.size())).ok()) return false;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto position = static_cast<int64_t>(before.size() + i);
      for (int32_t layer = 0; layer < static_cast<int32_t>(windows_.size()); ++layer)
        visit(layer, sequence, position, [&](std::byte* at, int32_t part) {
          const float value = stored(rows[i], layer, part);
          std::memcpy(at, &value, sizeof(value));
        });
    }
    return true;
  }
  int64_t length(int32_t sequence) override { return cache_.length(sequence); }
  int64_t reentry(int32_t sequence, int64_t length) override {
    return cache_.reentry_position(sequence, length);
  }
  void roll_back(int32_t sequence, int64_t length) override { cache_.truncate(sequence, length); }
  std::optional<int32_t> fork(int32_t sequence, int64_t length) override {
    const auto copy = cache_.fork(sequence, length);
    return copy.ok() ? std::optional(*copy) : std::nullopt;
  }
  bool snapshot(int32_t sequence) override { return cache_.take_snapshot(sequence); }
  std::optional<int32_t> save_and_load(int32_t sequence, const Tokens& tokens) override {
    cache::SequenceWriter writer = through_.writer(tokens);
    save(sequence, writer);
    EXPECT_TRUE(writer.finish_blocking().ok());
    through_.reopen();
    return load(through_);
  }
  void save(int32_t sequence, cache::SequenceWriter& writer) const { cache_.save(sequence, writer); }
  std::optional<int32_t> load(ThroughFile& through) {
    const auto loaded = cache_.restore(cache_.read(through.file, through.body).value());
    return loaded.ok() ? std::optional(*loaded) : std::nullopt;
  }

  std::string fault(int32_t sequence, const Tokens& tokens) override {
    const auto length = static_cast<int64_t>(tokens.size());
    for (int32_t layer : reads_) {
      const int64_t window = windows_[static_cast<size_t>(layer)];
      for (int64_t p = window == 0 ? 0 : std::max<int64_t>(0, length - window + 1); p < length; ++p) {
        std::string found;
        visit(layer, sequence, p, [&](const std::byte* at, int32_t part) {
          float value = 0;
          std::memcpy(&value, at, sizeof(value));
          if (value != stored(tokens[static_cast<size_t>(p)], layer, part))
            found = fmt::format("holds {} at {} of layer {}, of {} positions", value, p, layer, length);
        });
        if (!found.empty()) return found;
      }
    }
    return "";
  }
  std::string leak() override {
    return cache_.bytes_in_use() == 0 ? "" : fmt::format("{} bytes are still in use", cache_.bytes_in_use());
  }

 private:
  static float stored(int32_t token, int32_t layer, int32_t part) {
    return static_cast<float>(token) + 0.25f * static_cast<float>(part) + 0.0625f * static_cast<float>(layer);
  }

  // A key and a value of a position, each of another head, and of codes a scale and a bias.
  template <typename Visit>
  void visit(int32_t layer, int32_t sequence, int64_t position, const Visit& visit) {
    kernels::StepInput input;
    input.sequences = &sequence;
    input.block_tables = cache_.tables();
    input.block_table_stride = cache_.stride();
    input.block_table_kind_stride = cache_.kind_stride();
    const kernels::KvLayer view = cache_.layer(layer);
    const int32_t block = kernels::block_table(input, view, 0)[position / kBlockPositions];
    const int64_t within = position % kBlockPositions;
    std::byte* keys = view.keys + block * view.block_stride;
    std::byte* values = view.values + block * view.block_stride;
    visit(keys + view.offset(0, within), 0);
    visit(values + view.offset(1, within), 1);
    if (!view.has_codes()) return;
    for (int32_t head = 0; head < 2; ++head) {
      std::byte* scale = (head == 0 ? keys : values) + view.scale_offset(head, within, 0);
      std::byte* bias = scale + 2 * kBlockPositions;
      std::byte both[4];
      std::memcpy(both, scale, 2);
      std::memcpy(both + 2, bias, 2);
      visit(both, 2 + head);
      std::memcpy(scale, both, 2);
      std::memcpy(bias, both + 2, 2);
    }
  }

  std::vector<int64_t> windows_;
  std::vector<int32_t> reads_;
  cache::KvCache cache_;
  ThroughFile through_;
};

constexpr RecurrentShape kState = {1, 1, 8, 16, 2, false};

// What a token puts into the delta rule.
struct DeltaRow {
  std::vector<float> q, k, v;
  float decay, beta;

  explicit DeltaRow(int32_t token)
      : q(kernels::testing::random_values(kState.key_dim, static_cast<uint32_t>(token), 0.4f)),
        k(kernels::testing::random_values(kState.key_dim, static_cast<uint32_t>(token) + 1, 0.4f)),
        v(kernels::testing::random_values(kState.value_dim, static_cast<uint32_t>(token) + 2)),
        decay(0.75f + 0.2f * static_cast<float>(token % 2)),
        beta(0.5f + 0.25f * static_cast<float>(token % 3 == 0)) {}
};

// The delta rule by definition, in double.
class NaiveState {
 public:
  std::vector<double> step(const DeltaRow& row) {
    std::vector<double> out;
    for (int32_t n = 0; n < kState.value_dim; ++n) {
      double* s = &state_[static_cast<size_t>(n * kState.key_dim)];
      double seen = 0, given = 0;
      for (int32_t d = 0; d < kState.key_dim; ++d)
        seen += (s[d] *= row.decay) * row.k[static_cast<size_t>(d)];
      const double delta = row.beta * (row.v[static_cast<size_t>(n)] - seen);
      for (int32_t d = 0; d < kState.key_dim; ++d) {
        s[d] += delta * row.k[static_cast<size_t>(d)];
        given += s[d] * row.q[static_cast<size_t>(d)];
      }
      out.push_back(given);
    }
    return out;
  }

 private:
  std::vector<double> state_ = std::vector<double>(size_t{8} * 16, 0.0);
};

// Recurrent states, through the kernel that reads and writes them. What they hold shows in the outputs of the
// rows to come: each append is checked as it is made.
class StateUnderTest : public CacheUnderTest {
 public:
  StateUnderTest()
      : store_(cache::RecurrentStore::create({kState}, kSequences, 20 * kState.slot_floats() * 4).value()) {
    team_.set_scratch(table_.gated_delta_scratch({nullptr, {kState}}));
  }

  std::optional<int32_t> create() override {
    for (int32_t s = 0; s < kSequences; ++s) {
      if (naive_.contains(s)) continue;
      store_.create_sequence(s);
      naive_[s] = {NaiveState{}};
      return s;
    }
    return std::nullopt;
  }
  void release(int32_t sequence) override {
    store_.release(sequence);
    naive_.erase(sequence);
  }
  bool append(int32_t sequence, const Tokens& before, std::span<const int32_t> tokens) override {
    if (static_cast<int64_t>(before.size() + tokens.size()) > kMaxPositions) return false;
    const auto rows = static_cast<int32_t>(tokens.size());
    const kernels::RecurrentRun run = store_.begin(sequence, 0, rows);
    std::vector<int32_t> indices;
    std::vector<float> q, k, v, gates, out(static_cast<size_t>(rows * kState.value_width()));
    std::vector<NaiveState>& states = naive_.at(sequence);
    std::vector<double> expected;
    for (int32_t i = 0; i < rows; ++i) {
      const DeltaRow row(tokens[static_cast<size_t>(i)]);
      indices.push_back(i);
      q.insert(q.end(), row.q.begin(), row.q.end());
      k.insert(k.end(), row.k.begin(), row.k.end());
      v.insert(v.end(), row.v.begin(), row.v.end());
      gates.insert(gates.end(), {row.decay, row.beta});
      states.push_back(states.back());
      for (double value : states.back().step(row)) expected.push_back(value);
    }
    const kernels::RecurrentInput input = {1, &run, indices.data()};
    team_.run(table_.gated_delta, kernels::GatedDeltaArgs{&input, store_.layer(0), q.data(), k.data(),
                                                          v.data(), gates.data(), out.data()});
    for (size_t i = 0; i < out.size(); ++i) {
      if (!(std::abs(out[i] - expected[i]) <= 1e-4 * (1 + std::abs(expected[i]))))
        fault_ = fmt::format("gives {} and not {} after {} rows", out[i], expected[i], before.size());
    }
    return true;
  }
  int64_t length(int32_t sequence) override { return store_.length(sequence); }
  int64_t reentry(int32_t sequence, int64_t length) override {
    return store_.reentry_position(sequence, length);
  }
  void roll_back(int32_t sequence, int64_t length) override {
    store_.truncate(sequence, length);
    naive_.at(sequence).resize(static_cast<size_t>(length + 1));
  }
  std::optional<int32_t> fork(int32_t sequence, int64_t length) override {
    for (int32_t s = 0; s < kSequences; ++s) {
      if (naive_.contains(s)) continue;
      store_.fork(sequence, s, length);
      const std::vector<NaiveState>& states = naive_.at(sequence);
      naive_[s] = {states.begin(), states.begin() + length + 1};
      return s;
    }
    return std::nullopt;
  }
  bool snapshot(int32_t sequence) override { return store_.take_snapshot(sequence); }
  std::optional<int32_t> save_and_load(int32_t sequence, const Tokens& tokens) override {
    cache::SequenceWriter writer = through_.writer(tokens);
    save(sequence, writer);
    EXPECT_TRUE(writer.finish_blocking().ok());
    through_.reopen();
    return load(through_, sequence);
  }
  void save(int32_t sequence, cache::SequenceWriter& writer) const { store_.save(sequence, writer); }
  // `saved`: the sequence that the file is of.
  std::optional<int32_t> load(ThroughFile& through, int32_t saved) {
    const auto parts = store_.read(through.file, through.body, store_.length(saved)).value();
    EXPECT_TRUE(through.body.at_end());
    const std::optional<int32_t> created = create();
    if (!created) return created;
    store_.restore(*created, parts);
    naive_[*created] = naive_.at(saved);
    return created;
  }
  std::string fault(int32_t, const Tokens&) override { return fault_; }
  std::string leak() override {
    return store_.snapshot_bytes_in_use() == 0
               ? ""
               : fmt::format("{} bytes of snapshots are still there", store_.snapshot_bytes_in_use());
  }

 private:
  cache::RecurrentStore store_;
  std::map<int32_t, std::vector<NaiveState>> naive_;  // after each row, the empty one first
  std::string fault_;
  ThroughFile through_;
  const kernels::KernelTable& table_ = kernels::cpu_kernels(base::supported_tiers().back());
  kernels::testing::TestTeam team_{1};
};

// A model with all kinds: what one refuses, none does; where one cannot go back to, none goes.
class MixedUnderTest : public CacheUnderTest {
 public:
  std::optional<int32_t> create() override {
    const auto sequence = kv_.create();
    if (sequence && states_.create() != sequence) ADD_FAILURE() << "sequences by other numbers";
    return sequence;
  }
  void release(int32_t sequence) override {
    kv_.release(sequence);
    states_.release(sequence);
  }
  bool append(int32_t sequence, const Tokens& before, std::span<const int32_t> rows) override {
    return kv_.append(sequence, before, rows) && states_.append(sequence, before, rows);
  }
  int64_t length(int32_t sequence) override {
    return kv_.length(sequence) == states_.length(sequence) ? kv_.length(sequence) : -1;
  }
  int64_t reentry(int32_t sequence, int64_t length) override {
    for (;;) {
      const int64_t reached = states_.reentry(sequence, kv_.reentry(sequence, length));
      if (reached == length) return length;
      length = reached;
    }
  }
  void roll_back(int32_t sequence, int64_t length) override {
    states_.roll_back(sequence, length);
    kv_.roll_back(sequence, length);
  }
  std::optional<int32_t> fork(int32_t sequence, int64_t length) override {
    const auto copy = kv_.fork(sequence, length);
    if (copy && states_.fork(sequence, length) != copy) ADD_FAILURE() << "forks by other numbers";
    return copy;
  }
  bool snapshot(int32_t sequence) override { return kv_.snapshot(sequence) && states_.snapshot(sequence); }
  std::optional<int32_t> save_and_load(int32_t sequence, const Tokens& tokens) override {
    cache::SequenceWriter writer = through_.writer(tokens);
    kv_.save(sequence, writer);
    states_.save(sequence, writer);
    EXPECT_TRUE(writer.finish_blocking().ok());
    through_.reopen();
    const std::optional<int32_t> loaded = kv_.load(through_);
    if (loaded && states_.load(through_, sequence) != loaded) ADD_FAILURE() << "loads by other numbers";
    return loaded;
  }
  std::string fault(int32_t sequence, const Tokens& tokens) override {
    const std::string kv = kv_.fault(sequence, tokens);
    return kv.empty() ? states_.fault(sequence, tokens) : kv;
  }
  std::string leak() override {
    const std::string kv = kv_.leak();
    return kv.empty() ? states_.leak() : kv;
  }

 private:
  KvUnderTest kv_{{0, 100, 0, 30}, {0, 1, 2, 3, 0, 1}};
  StateUnderTest states_;
  ThroughFile through_;
};

std::unique_ptr<CacheUnderTest> make_cache(const std::string& kind) {
  if (kind == "full") return std::make_unique<KvUnderTest>(std::vector<int64_t>{0, 0}, std::vector{0, 1});
  if (kind == "sliding")
    return std::make_unique<KvUnderTest>(std::vector<int64_t>{100, 30}, std::vector{0, 1});
  // Gemma 4's E sizes: the last layers read the keys of the last full and the last sliding layer before them.
  if (kind == "shared")
    return std::make_unique<KvUnderTest>(std::vector<int64_t>{100, 0}, std::vector{0, 1, 0, 0, 1});
  if (kind == "codes") {
    return std::make_unique<KvUnderTest>(std::vector<int64_t>{0, 100, 0}, std::vector{0, 1, 2},
                                         std::vector<kernels::KvCodes>{{8, 8}, {4, 8}, {}});
  }
  if (kind == "recurrent") return std::make_unique<StateUnderTest>();
  return std::make_unique<MixedUnderTest>();
}

int64_t operations_per_kind() {
  const char* asked = std::getenv("RAFTER_CACHE_OPERATIONS");
  return asked != nullptr ? std::atoll(asked) : 2500;
}

TEST(CacheOperations, EveryKindHoldsWhatTheNextRowSees) {
  nlohmann::ordered_json kinds;
  int64_t total = 0;
  for (const char* kind : {"full", "sliding", "shared", "codes", "recurrent", "mixed"}) {
    const auto cache = make_cache(kind);
    const CacheOperations done =
        run_cache_operations(*cache, {.operations = operations_per_kind(), .rows_per_step = kRowsPerStep});
    EXPECT_EQ(done.fault, "") << kind;
    EXPECT_EQ(done.total(), operations_per_kind()) << kind;
    for (int64_t count : {done.append, done.roll_back, done.fork, done.snapshot, done.save, done.release})
      EXPECT_GT(count, operations_per_kind() / 60) << kind;
    kinds[kind] = {{"append", done.append},   {"refused", done.refused},   {"roll_back", done.roll_back},
                   {"fork", done.fork},       {"snapshot", done.snapshot}, {"save and load", done.save},
                   {"release", done.release}, {"create", done.create}};
    total += done.total();
  }
  std::printf("%lld operations on 6 kinds of caches\n", static_cast<long long>(total));
  const char* record = std::getenv("RAFTER_CACHE_RECORD");
  if (record == nullptr || HasFailure()) return;
  const nlohmann::ordered_json object = {{"operations", total}, {"faults", 0}, {"kinds", kinds}};
  std::ofstream(record) << object.dump(1) << "\n";
}

}  // namespace
}  // namespace rafter::testing
