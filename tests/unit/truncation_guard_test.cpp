#include "base/truncation_guard.h"

#include <numeric>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "tests/support/temp_folder.h"

namespace rafter::base {
namespace {

int64_t sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t total, std::byte byte) { return total + std::to_integer<int>(byte); });
}

TEST(TruncationGuard, LostPagesReadAsZerosAndTheFileIsAnError) {
  install_truncation_guard();
  testing::TempFolder folder;
  constexpr size_t kBytes = 1 << 20, kKept = 1 << 16;
  const std::string path = folder.write("data", std::string(kBytes, '\1'));
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(sum(file->bytes()), static_cast<int64_t>(kBytes));
  EXPECT_TRUE(file->check_not_truncated().ok());
  ASSERT_EQ(::truncate(path.c_str(), kKept), 0);
  EXPECT_FALSE(file->check_not_truncated().ok());  // by its size, before any read
  std::vector<std::thread> readers;
  std::vector<int64_t> sums(4);
  for (int64_t& total : sums) readers.emplace_back([&] { total = sum(file->bytes()); });
  for (std::thread& reader : readers) reader.join();
  for (int64_t total : sums) EXPECT_EQ(total, static_cast<int64_t>(kKept));
  // It stays an error when the file grows back.
  ASSERT_EQ(::truncate(path.c_str(), kBytes), 0);
  MappedFile moved = std::move(file).value();
  const auto status = moved.check_not_truncated();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::io);
  // A new mapping of the file has nothing to do with the old one.
  EXPECT_TRUE(MappedFile::open(path)->check_not_truncated().ok());
}

TEST(TruncationGuardDeathTest, OtherFaultsStillEndTheProgram) {
  install_truncation_guard();
  EXPECT_DEATH(::raise(SIGBUS), "");
  // A mapping that nobody watches.
  testing::TempFolder folder;
  const std::string path = folder.write("data", std::string(1 << 16, '\1'));
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  void* data = ::mmap(nullptr, 1 << 16, PROT_READ, MAP_SHARED, descriptor, 0);
  ASSERT_NE(data, MAP_FAILED);
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_DEATH((void)*static_cast<volatile char*>(data), "");
  ::munmap(data, 1 << 16);
  ::close(descriptor);
}

}  // namespace
}  // namespace rafter::base
