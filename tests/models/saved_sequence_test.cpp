// Sequences in files: what another engine makes of one has the bits of the sequence that was saved, for every
// kind of cache; and whatever a file holds, it is loaded whole or refused with a reason.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "tests/models/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using base::ErrorCode;
using engine::Engine;
using engine::EngineOptions;
using engine::KvQuantization;

struct SavedCase {
  const char* checkpoint;
  KvQuantization kv = KvQuantization::off;
};

// Full attention, in bf16 and in codes; windows; shared layers; recurrent states, alone and with codes.
const SavedCase kCases[] = {{"llama-a/hf-bf16"},
                            {"llama-a/hf-bf16", KvQuantization::eight_bits},
                            {"llama-256/gguf-q4_0", KvQuantization::four_bits},
                            {"gemma3-tiny/gguf-q4_0"},
                            {"gemma3-tiny/gguf-q4_0", KvQuantization::four_bits},
                            {"gemma4-e/mlx-mixed-g32"},
                            {"gemma4-e/mlx-mixed-g32", KvQuantization::eight_bits},
                            {"qwen3_5-tiny/mlx4-g32"},
                            {"qwen3_5-moe/mlx8-g32", KvQuantization::eight_bits}};

constexpr size_t kModelOffset = 32;  // in a file; see cache/sequence_file.h

// The file with checksums that fit whatever it holds now.
void seal(std::string& file) {
  uint32_t head_bytes = 0;
  std::memcpy(&head_bytes, &file[12], sizeof(head_bytes));
  if (head_bytes < 48 || head_bytes > file.size()) return;
  const uint64_t body_bytes = file.size() - head_bytes;
  const uint64_t body = XXH64(file.data() + head_bytes, body_bytes, 0);
  std::memcpy(&file[16], &body_bytes, sizeof(body_bytes));
  std::memcpy(&file[24], &body, sizeof(body));
  const uint64_t head = XXH64(file.data(), head_bytes - sizeof(uint64_t), 0);
  std::memcpy(&file[head_bytes - sizeof(head)], &head, sizeof(head));
}

class SavedSequence : public ::testing::TestWithParam<SavedCase> {
 protected:
  static constexpr int64_t kSnapshot = 40, kSaved = 70;

  void SetUp() override {
    const OracleCase* found = find_oracle_case(GetParam().checkpoint);
    if (found == nullptr)
      GTEST_SKIP() << "no oracle data for " << GetParam().checkpoint << ": run make oracle";
    path_ = found->path;
    tokens_ = read_values(*found).tokens;
    ASSERT_GT(tokens_.size(), static_cast<size_t>(kSaved + 20));
  }

  std::unique_ptr<Engine> open(int64_t context = 0) const {
    EngineOptions options;
    options.threads = 1;
    options.kv_quantization = GetParam().kv;
    options.context_limit = context;
    options.row_capacity = 64;
    options.max_sequences = 6;
    return open_engine(path_, options);
  }
  std::span<const int32_t> saved_tokens() const {
    return std::span(tokens_).first(static_cast<size_t>(kSaved));
  }

  // Feeds the prompt with a snapshot on the way, saves it, and goes on: the logits of the rest.
  std::vector<float> save(Engine& engine) const {
    const int32_t sequence = engine.create_sequence().value();
    feed(engine, sequence, tokens_, 0, kSnapshot, 64, nullptr);
    EXPECT_TRUE(engine.take_snapshot(sequence));
    feed(engine, sequence, tokens_, kSnapshot, kSaved, 7, nullptr);
    const base::Status status = engine.save_sequence_blocking(sequence, saved_tokens(), "space", file_);
    EXPECT_TRUE(status.ok()) << status.error().message();
    std::vector<float> logits;
    feed(engine, sequence, tokens_, kSaved, static_cast<int64_t>(tokens_.size()), 3, &logits);
    engine.release_sequence(sequence);
    return logits;
  }

  TempFolder folder_;
  std::string file_ = folder_ / "one.kv";
  std::string path_;
  std::vector<int32_t> tokens_;
};

TEST_P(SavedSequence, ComputesTheSameBitsInAnotherEngine) {
  const std::vector<float> expected = save(*open());
  auto engine = open();
  ASSERT_EQ(engine->cache_bytes_in_use(), 0);
  const auto loaded = engine->load_sequence_blocking(file_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(loaded->head.space, "space");
  EXPECT_TRUE(std::equal(loaded->head.tokens.begin(), loaded->head.tokens.end(), tokens_.begin()));
  EXPECT_EQ(engine->length(loaded->sequence), kSaved);
  const auto go_on = [&] {
    std::vector<float> logits;
    feed(*engine, loaded->sequence, tokens_, kSaved, static_cast<int64_t>(tokens_.size()), 3, &logits);
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0);
  };
  go_on();
  // Back to the snapshot that came with it.
  ASSERT_EQ(engine->reentry_position(loaded->sequence, kSnapshot), kSnapshot);
  engine->truncate(loaded->sequence, kSnapshot);
  feed(*engine, loaded->sequence, tokens_, kSnapshot, kSaved, 64, nullptr);
  go_on();
  engine->release_sequence(loaded->sequence);
  EXPECT_EQ(engine->cache_bytes_in_use(), 0);
}

TEST_P(SavedSequence, IsTheSameFileHoweverItCameAbout) {
  auto engine = open();
  save(*engine);
  const std::string first = read_file(file_);
  save(*engine);  // into blocks that hold other rows beyond the end
  EXPECT_EQ(read_file(file_), first);
  const auto loaded = engine->load_sequence_blocking(file_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(engine->save_sequence_blocking(loaded->sequence, saved_tokens(), "space", file_).ok());
  EXPECT_EQ(read_file(file_), first) << "what was loaded is saved again as it was";
}

// Every cut and single flipped bits all over: refused with a reason, nothing is left of it.
TEST_P(SavedSequence, DamageIsRefused) {
  auto engine = open();
  save(*engine);
  const std::string file = read_file(file_);
  const auto refused = [&](const std::string& damaged, const std::string& what) {
    folder_.write("damaged.kv", damaged);
    const auto loaded = engine->load_sequence_blocking(folder_ / "damaged.kv");
    ASSERT_FALSE(loaded.ok()) << what;
    EXPECT_NE(loaded.error().what, "") << what;
    EXPECT_NE(loaded.error().where.find("damaged.kv"), std::string::npos) << what;
    EXPECT_EQ(engine->cache_bytes_in_use(), 0) << what;
  };
  std::mt19937 random(5);
  for (size_t i = 0; i < 40; ++i) {
    const size_t cut = i < 20 ? i * 7 : random() % file.size();
    refused(file.substr(0, cut), fmt::format("cut to {} bytes", cut));
  }
  for (size_t i = 0; i < 150; ++i) {
    const size_t at = i < 100 ? i : random() % file.size();
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    refused(damaged, fmt::format("a bit of byte {}", at));
  }
  refused(file + "x", "a byte more");
}

// With checksums that fit, what only the checks of each number can see. Loaded or refused, never half.
TEST_P(SavedSequence, AForgedFileIsLoadedWholeOrRefused) {
  auto engine = open();
  save(*engine);
  const std::string file = read_file(file_);
  uint32_t head_bytes = 0;
  std::memcpy(&head_bytes, &file[12], sizeof(head_bytes));
  std::mt19937 random(6);
  constexpr int64_t kNumbers[] = {-1, 0, 1, 2, 63, 65, 1 << 20, int64_t{1} << 33, INT64_MAX, INT64_MIN};
  int refusals = 0;
  for (size_t i = 0; i < 400; ++i) {
    std::string forged = file;
    if (i % 4 == 0) {  // the head's fields and texts
      forged[8 + random() % (head_bytes - 8)] = static_cast<char>(random());
    } else {  // mostly the front of the body, where most numbers are
      const size_t body = forged.size() - head_bytes;
      const size_t at = head_bytes + random() % (i % 4 == 1 ? body / 8 : std::min<size_t>(body / 8, 60)) * 8;
      const int64_t number = kNumbers[random() % std::size(kNumbers)];
      std::memcpy(&forged[at], &number, sizeof(number));
    }
    if (i % 10 == 0) forged.resize(forged.size() - random() % 100);
    seal(forged);
    folder_.write("forged.kv", forged);
    const auto loaded = engine->load_sequence_blocking(folder_ / "forged.kv");
    if (loaded.ok()) {
      EXPECT_EQ(engine->length(loaded->sequence), static_cast<int64_t>(loaded->head.tokens.size()));
      feed(*engine, loaded->sequence, tokens_, kSaved, kSaved + 5, 5, nullptr);
      engine->release_sequence(loaded->sequence);
    } else {
      ++refusals;
      EXPECT_NE(loaded.error().what, "");
    }
    ASSERT_EQ(engine->cache_bytes_in_use(), 0) << i;
  }
  EXPECT_GT(refusals, 100);
}

TEST_P(SavedSequence, AnotherModelOrModeIsNamed) {
  save(*open());
  std::string file = read_file(file_);
  file[kModelOffset] = static_cast<char>(file[kModelOffset] ^ 1);
  seal(file);
  folder_.write("other.kv", file);
  const auto other = open()->load_sequence_blocking(folder_ / "other.kv");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(other.error().what.find("another model"), std::string::npos) << other.error().message();

  EngineOptions options;
  options.kv_quantization =
      GetParam().kv == KvQuantization::off ? KvQuantization::eight_bits : KvQuantization::off;
  const auto mode = open_engine(path_, options)->load_sequence_blocking(file_);
  ASSERT_FALSE(mode.ok());
  EXPECT_NE(mode.error().what.find("as bf16"), std::string::npos) << mode.error().message();
  EXPECT_NE(mode.error().hint.find("--kv-quant"), std::string::npos);
}

TEST_P(SavedSequence, AContextThatIsTooSmallRefusesIt) {
  save(*open());
  auto small = open(/*context=*/kSaved - 1);
  const auto loaded = small->load_sequence_blocking(file_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::out_of_memory) << loaded.error().message();
  EXPECT_EQ(small->cache_bytes_in_use(), 0);
  EXPECT_TRUE(small->create_sequence().ok());
}

TEST_P(SavedSequence, AFullDiskLeavesNothing) {
  auto engine = open();
  const int32_t sequence = engine->create_sequence().value();
  feed(*engine, sequence, tokens_, 0, kSaved, 64, nullptr);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const base::Status status = engine->save_sequence_blocking(sequence, saved_tokens(), "", file_);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::io) << status.error().message();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "a part of a file is left";
  EXPECT_TRUE(engine->save_sequence_blocking(sequence, saved_tokens(), "", file_).ok());
}

std::string case_name(const ::testing::TestParamInfo<SavedCase>& tested) {
  std::string name = tested.param.checkpoint;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (tested.param.kv == KvQuantization::eight_bits) name += "_kv8";
  if (tested.param.kv == KvQuantization::four_bits) name += "_kv4";
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, SavedSequence, ::testing::ValuesIn(kCases), case_name);

}  // namespace
}  // namespace rafter::testing
