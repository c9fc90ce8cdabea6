// Damaged model files: whatever is in them, opening one gives an error or a checkpoint whose every view is
// sound; it never crashes, hangs or allocates out of proportion. A new seed every run; RAFTER_TEST_SEED
// repeats one.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <random>

#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/support/format_files.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace {

std::atomic<int64_t> allocated{0}, peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t now = allocated += static_cast<int64_t>(::malloc_usable_size(memory));
  int64_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return memory;
}

}  // namespace

// Not inlined: GCC would see malloc and free of different pairs.
[[gnu::noinline]] void* operator new(size_t bytes) { return counted(std::malloc(bytes)); }
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  allocated -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace rafter::format {
namespace {

using testing::TempFolder;

constexpr int kFiles = 500;
constexpr int64_t kMostBytes = 4 << 20;  // the files have a few KB; messages and the JSON parser need some
constexpr auto kMostTime = std::chrono::seconds(2);

uint64_t test_seed() {
  if (const char* text = std::getenv("RAFTER_TEST_SEED"); text != nullptr)
    return std::strtoull(text, nullptr, 10);
  return std::random_device()();
}

// What a model would do with an opened checkpoint.
void use(const Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const std::string module =
        name.size() > 7 && name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
    for (int64_t columns : {32, 64, 128, 256}) {
      const auto matrix = checkpoint.matrix(module, 3, columns);
      if (!matrix.ok()) continue;
      std::vector<float> out(static_cast<size_t>(columns));
      for (int64_t r = 0; r < 3; ++r) tensor::decode_row(*matrix, r, out);
    }
    if (tensor.shape.empty()) continue;
    const auto vector = checkpoint.vector(name, tensor.shape[0]);
    for (int64_t i = 0; vector.ok() && i < vector->size; ++i) (void)vector->at(i);
  }
  for (const auto& [key, value] : checkpoint.gguf_metadata()) {
    (void)checkpoint.gguf_integer(key).ok();
    (void)checkpoint.gguf_integers(key).ok();
    (void)checkpoint.gguf_numbers(key).ok();
    (void)checkpoint.gguf_strings(key).ok();
  }
}

struct Subject {
  const char* fixture;  // folder of the other files
  const char* name;     // the file that is damaged
  size_t header;
};

class Mutation : public ::testing::TestWithParam<Subject> {};

TEST_P(Mutation, DamagedFilesGiveErrorsOrSoundViews) {
  const Subject& subject = GetParam();
  const uint64_t seed = test_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const std::string fixture = std::string(RAFTER_SOURCE_DIR "/tests/fixtures/format/") + subject.fixture;
  TempFolder folder;
  std::filesystem::copy(fixture, folder.path(), std::filesystem::copy_options::recursive);
  const std::string good = testing::read_file(folder / subject.name);
  ASSERT_FALSE(good.empty());
  testing::Mutator mutate(seed, subject.header);
  int opened = 0;
  for (int i = 0; i < kFiles; ++i) {
    folder.write(subject.name, mutate(good));
    const int64_t before = allocated;
    peak = before;
    const auto start = std::chrono::steady_clock::now();
    {
      const auto checkpoint = Checkpoint::open(folder.path());
      if (checkpoint.ok()) {
        ++opened;
        ASSERT_EQ(testing::views_fault(checkpoint->tensors(), checkpoint->files()), "")
            << "seed " << seed << ", file " << i;
        use(*checkpoint);
      } else {
        ASSERT_FALSE(checkpoint.error().what.empty());
      }
    }
    ASSERT_LT(peak - before, kMostBytes) << "seed " << seed << ", file " << i;
    ASSERT_LT(std::chrono::steady_clock::now() - start, kMostTime) << "seed " << seed << ", file " << i;
    ASSERT_EQ(allocated, before) << "seed " << seed << ", file " << i;
  }
  std::printf("%d of %d files still opened\n", opened, kFiles);
  // Both outcomes must occur, or the test has stopped to test.
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, kFiles * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Files, Mutation,
                         ::testing::Values(Subject{"hf", "model.safetensors", 500},
                                           Subject{"mlx", "model.safetensors", 1000},
                                           Subject{"gguf", "model.gguf", 1200},
                                           Subject{"mlx", "config.json", 300},
                                           Subject{"sharded", "model.safetensors.index.json", 300}));

}  // namespace
}  // namespace rafter::format
