// Writes a GGUF file (version 3) without holding it in memory: set metadata and declare every tensor, begin,
// append bytes in any order of tensors and in pieces of any size, finish. Used as SafetensorsWriter is.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf_types.h"
#include "format/tensor_file.h"
#include "tensor/number_format.h"

namespace rafter::format {

class GgufWriter {
 public:
  explicit GgufWriter(std::string path) : path_(std::move(path)) {}

  // Metadata, kept in the order of the calls. A repeated key is an error of begin().
  void set_string(std::string_view key, std::string_view value);
  void set_u32(std::string_view key, uint32_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  void set_bools(std::string_view key, std::span<const int32_t> values);  // false: 0
  void set_f32s(std::string_view key, std::span<const float> values);

  // `shape` row-major, 1 to 4 dimensions; `format` plain or a GGUF block format.
  base::Status declare(const std::string& name, tensor::NumberFormat format,
                       const std::vector<int64_t>& shape);
  // Lays the file out in the order of the declarations, every tensor at a multiple of 32.
  base::Status begin();
  base::Status append(std::string_view name, std::span<const std::byte> bytes) {
    return file_.append(name, bytes);
  }
  base::Status finish_blocking() { return file_.finish_blocking(); }

 private:
  struct Declared {
    std::string name;
    const GgufType* type;
    std::vector<int64_t> shape;
    uint64_t bytes;
  };

  void put_key(std::string_view key, uint32_t type);

  std::string path_;
  std::string metadata_;  // encoded records
  uint64_t key_count_ = 0;
  std::set<std::string, std::less<>> keys_, names_;
  std::vector<Declared> tensors_;
  TensorFile file_;
};

}  // namespace rafter::format
