// Damaged models, end to end: open, build the model, bind, run a step. 500 mutants of each kind; every one
// must give an error or an answer, never a crash, a hang or a large allocation. The seed is printed;
// RAFTER_TEST_SEED repeats a run.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "engine/engine.h"
#include "tests/models/oracle_data.h"

namespace rafter::testing {
namespace {

namespace fs = std::filesystem;

uint64_t seed() {
  if (const char* text = std::getenv("RAFTER_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void write_all(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Damages what lies before `header_end`, where all that is parsed lies, or cuts the file.
std::string mutate(const std::string& original, size_t header_end, std::mt19937_64& random) {
  std::string bytes = original;
  const int edits = 1 + static_cast<int>(random() % 3);
  for (int edit = 0; edit < edits; ++edit) {
    const size_t at = random() % header_end;
    switch (random() % 7) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1u << random() % 8);
        break;
      case 2:
        bytes[at] = "0123456789,:{}[]\"-.e"[random() % 20];
        break;
      case 3:  // an extreme where a length or a number may stand
        for (size_t i = 0; i < 8 && at + i < header_end; ++i)
          bytes[at + i] = random() % 2 == 0 ? '\xff' : '\0';
        break;
      case 4:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 5:
        bytes.insert(at, original.substr(random() % header_end, 1 + random() % 16));
        break;
      case 6:
        bytes.resize(random() % bytes.size());
        break;
    }
    if (bytes.size() <= 1) break;
    header_end = std::min(header_end, bytes.size());
  }
  return bytes;
}

// A digit run of a JSON text replaced by another number: past the syntax, into the sizes.
std::string mutate_number(const std::string& original, std::mt19937_64& random) {
  static const char* const kNumbers[] = {
      "0",     "1",   "-1",   "2147483647", "4294967296", "9223372036854775807",
      "1e308", "0.5", "7",    "64",         "null",       "\"x\"",
      "[]",    "{}",  "true", "1048576"};
  std::vector<std::pair<size_t, size_t>> runs;
  for (size_t i = 0; i < original.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(original[i]))) continue;
    const size_t begin = i;
    while (i < original.size() && std::isdigit(static_cast<unsigned char>(original[i]))) ++i;
    runs.emplace_back(begin, i - begin);
  }
  const auto [begin, length] = runs[random() % runs.size()];
  std::string bytes = original;
  return bytes.replace(begin, length, kNumbers[random() % 16]);
}

// Opens and, if that works, runs two rows. True: it answered.
bool try_model(const fs::path& path) {
  auto checkpoint = format::Checkpoint::open(path.string());
  if (!checkpoint.ok()) {
    EXPECT_FALSE(checkpoint.error().what.empty());
    return false;
  }
  engine::EngineOptions options;
  options.threads = 1;
  options.max_sequences = 1;
  options.row_capacity = 8;
  auto engine = engine::Engine::open(
      std::make_shared<const format::Checkpoint>(std::move(checkpoint).value()), options);
  if (!engine.ok()) {
    EXPECT_FALSE(engine.error().what.empty());
    return false;
  }
  auto sequence = (*engine)->create_sequence();
  const engine::Row rows[] = {{1, 0, *sequence, false, 0}, {2, 1, *sequence, true, 0}};
  const base::Status status = (*engine)->step(rows);
  return status.ok();
}

class MutatedModelTest : public ::testing::Test {
 protected:
  static constexpr int kMutants = 500;

  void SetUp() override {
    if (oracle_cases().empty())
      GTEST_SKIP() << "no oracle data in " << oracle_folder() << ": run make oracle";
    folder_ = fs::path(::testing::TempDir()) / ("rafter-mutated-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    random_.seed(seed_);
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs mutants made by `make` of `file` and judges the memory that they took together.
  void run(const fs::path& model, const fs::path& file,
           const std::function<std::string(const std::string&)>& make) {
    const std::string original = read_all(file);
    ASSERT_TRUE(try_model(model)) << "the undamaged model must answer";
    const int64_t before = peak_resident_bytes();
    int answered = 0;
    for (int i = 0; i < kMutants; ++i) {
      write_all(file, make(original));
      answered += try_model(model);
    }
    std::printf("%d of %d mutants still answered\n", answered, kMutants);
    EXPECT_LT(answered, kMutants);
    EXPECT_LT(peak_resident_bytes() - before, int64_t{256} << 20);
  }

  fs::path copy_of(const std::string& name) {
    const OracleCase* found = find_oracle_case(name);
    if (found == nullptr) {
      ADD_FAILURE() << "no checkpoint " << name;
      return {};
    }
    const fs::path target = folder_ / fs::path(found->path).filename();
    fs::copy(found->path, target, fs::copy_options::recursive);
    return target;
  }

  const uint64_t seed_ = seed();
  std::mt19937_64 random_;
  fs::path folder_;
};

TEST_F(MutatedModelTest, ConfigSyntax) {
  const fs::path model = copy_of("llama-a/mlx4-g32");
  run(model, model / "config.json",
      [&](const std::string& original) { return mutate(original, original.size(), random_); });
}

TEST_F(MutatedModelTest, ConfigNumbers) {
  const fs::path model = copy_of("llama-b/hf-bf16");
  run(model, model / "config.json",
      [&](const std::string& original) { return mutate_number(original, random_); });
}

TEST_F(MutatedModelTest, SafetensorsHeader) {
  const fs::path model = copy_of("qwen3-tiny/hf-bf16");
  run(model, model / "model.safetensors",
      [&](const std::string& original) { return mutate(original, 4096, random_); });
}

TEST_F(MutatedModelTest, GgufMetadataAndTensors) {
  const fs::path model = copy_of("llama-a/gguf-q4_0");
  run(model, model, [&](const std::string& original) { return mutate(original, 30000, random_); });
}

}  // namespace
}  // namespace rafter::testing
