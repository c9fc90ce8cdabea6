// What the writers of both containers share: tensors with a place in the file, filled in pieces in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"

namespace rafter::format {

struct TensorPlace {
  std::string name;
  uint64_t offset = 0;  // from the beginning of the file
  uint64_t bytes = 0;
};

class TensorFile {
 public:
  // Creates the file and writes `header` at its beginning.
  static base::Result<TensorFile> create(const std::string& path, std::string_view header,
                                         const std::vector<TensorPlace>& places, uint64_t file_bytes);

  // The next bytes of a tensor. Errors: invalid_argument for an unknown name or too many bytes; io.
  base::Status append(std::string_view name, std::span<const std::byte> bytes);

  // Error if a tensor has not got all its bytes.
  base::Status finish_blocking();

 private:
  struct Progress {
    uint64_t offset, bytes, written;
  };

  std::string path_;
  base::OutputFile file_;
  std::map<std::string, Progress, std::less<>> tensors_;
};

}  // namespace rafter::format
