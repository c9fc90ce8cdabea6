// What a file on disk holds, whatever its container: metadata, named tensors as views over the mapping, and
// the small text files beside them. Nothing is copied or converted; everything was validated before the first
// view was formed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "tensor/matrix.h"

namespace rafter::format {

enum class Container { safetensors, gguf };

// One stored tensor. Exactly one of the two layouts: a plain dtype (safetensors, GGUF F32/F16/BF16), or a
// GGUF block format. MLX's quantised triples stay three plain tensors here; Checkpoint::matrix() joins them.
struct StoredTensor {
  tensor::DType dtype = tensor::DType::f32;
  std::optional<tensor::FormatKind> block_format;  // GGUF q4_0 …; nullopt for plain dtypes
  std::vector<int64_t> shape;                      // row-major, outermost first (GGUF's order reversed)
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  int file = 0;  // index into Checkpoint::files
};

// A GGUF metadata value. Arrays of numbers keep their bytes in the mapping; arrays of strings are copied.
struct GgufValue {
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
               std::vector<double>, std::vector<std::string>>
      value;
};

class Checkpoint {
 public:
  // `path`: a folder with config.json and safetensors (single, sharded with an index, or model*.safetensors),
  // or a .gguf file. Validates every header; maps, never reads, the weights.
  static base::Result<Checkpoint> open(const std::string& path);

  Container container() const { return container_; }
  const std::string& path() const { return path_; }

  // --- tensors
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  // A weight matrix [rows, columns] by module path without ".weight" ("model.layers.0.mlp.up_proj",
  // "blk.0.ffn_up"). Joins MLX triples by the config's quantization block (formats.md 2.6). Checks shape and
  // format. Errors: not_found, invalid_data (shape differs from rows × columns: both are named), unsupported
  // (bits, dtype).
  base::Result<tensor::MatrixView> matrix(const std::string& module, int64_t rows, int64_t columns) const;

  // A vector by full tensor name. Errors as above.
  base::Result<tensor::VectorView> vector(const std::string& name, int64_t size) const;

  // --- metadata
  // Text of config.json (safetensors); empty for GGUF.
  const std::string& config_json() const { return config_json_; }
  // GGUF metadata; empty for safetensors.
  const std::map<std::string, GgufValue, std::less<>>& gguf_metadata() const { return gguf_metadata_; }
  // Content of a text file beside the weights ("tokenizer.json", "chat_template.jinja", …); nullopt if
  // absent.
  base::Result<std::optional<std::string>> sidecar(const std::string& name) const;

  // Bytes of all weight files.
  int64_t file_bytes() const;
  // Error if a mapped file shrank since it was opened.
  base::Status check_not_truncated() const;
  // Fills the page tables of every mapping; blocks.
  void populate_blocking() const;

 private:
  friend class SafetensorsReader;
  friend class GgufReader;

  // Per-module quantization of an MLX config (formats.md 2.6).
  struct Quantization {
    bool present = false;
    int bits = 4, group = 64;
    struct Override {
      bool quantized = true;
      int bits = 0, group = 0;
    };
    std::map<std::string, Override, std::less<>> overrides;
  };

  Container container_ = Container::safetensors;
  std::string path_;
  std::vector<base::MappedFile> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::string config_json_;
  std::map<std::string, GgufValue, std::less<>> gguf_metadata_;
  Quantization quantization_;
};

}  // namespace rafter::format
