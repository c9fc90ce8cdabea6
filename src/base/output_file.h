// A file written in pieces under a temporary name beside its destination. Only finish() makes it appear,
// synced to the disk; a writer that is dropped before leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace rafter::base {

class OutputFile {
 public:
  // Creates the temporary file with room for `bytes`. `is_private`: only the user may read it.
  static Result<OutputFile> create(const std::string& path, uint64_t bytes, bool is_private = false);

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  Status write_at(uint64_t offset, std::span<const std::byte> bytes);

  // Syncs, renames over `path`, syncs the folder. Blocks until the disk has everything.
  Status finish_blocking();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace rafter::base
