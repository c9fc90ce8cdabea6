// Writes a safetensors file without holding it in memory: declare every tensor, begin, append bytes in any
// order of tensors and in pieces of any size (each append is one write: some 100 KB or more are best),
// finish.
//
//   SafetensorsWriter writer("model.safetensors", {{"format", "mlx"}});
//   RAFTER_TRY(writer.declare("a.weight", DType::u32, {rows, columns / 8}));
//   RAFTER_TRY(writer.begin());
//   RAFTER_TRY(writer.append("a.weight", bytes));
//   RAFTER_TRY(writer.finish_blocking());
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tensor_file.h"
#include "tensor/dtype.h"

namespace rafter::format {

class SafetensorsWriter {
 public:
  // `metadata`: "format" is "pt" for Hugging Face weights and "mlx" for MLX ones.
  explicit SafetensorsWriter(std::string path,
                             std::map<std::string, std::string> metadata = {{"format", "pt"}});

  base::Status declare(const std::string& name, tensor::DType dtype, const std::vector<int64_t>& shape);
  // Lays the file out: the data begins at a multiple of 64, wider element types first, then by name.
  base::Status begin();
  base::Status append(std::string_view name, std::span<const std::byte> bytes) {
    return file_.append(name, bytes);
  }
  base::Status finish_blocking() { return file_.finish_blocking(); }

 private:
  struct Declared {
    tensor::DType dtype;
    std::vector<int64_t> shape;
    uint64_t bytes;
  };

  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Declared> tensors_;
  TensorFile file_;
};

}  // namespace rafter::format
