// A read-only file mapping, owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace rafter::base {

class MappedFile {
 public:
  // Maps the whole file (MAP_SHARED, read only). An empty or irregular file is an error. Does not read any
  // page.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Error if the file on disk is now shorter than the mapping, where a read raises SIGBUS, or if such a read
  // has already been answered with zeros (base/truncation_guard.h).
  Status check_not_truncated() const;
  // The second half alone: no system call.
  Status check_not_cut() const;

  // Fills the page tables (and reads what is not cached yet) piece by piece until done or told to stop. Best
  // effort.
  void populate_blocking(const std::atomic<bool>& stopping) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  int watch_ = -1;
  std::string path_;
};

// The whole file as a string; refuses files over `limit` bytes.
Result<std::string> read_text_file(const std::string& path, uint64_t limit = 256ull << 20);

// Writes through a temporary file in the same directory, syncs, and renames over `path`.
Status write_file_synced(const std::string& path, std::span<const std::byte> bytes);

}  // namespace rafter::base
