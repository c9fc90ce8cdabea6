// What a file on disk holds, whatever its container: metadata, named tensors as views over the mapping, and
// the small text files beside them. Nothing is copied or converted; everything was validated before the first
// view was formed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "format/checkpoint_path.h"
#include "format/gguf_value.h"
#include "format/mlx_quantization.h"
#include "tensor/matrix.h"

namespace rafter::format {

// One stored tensor. Exactly one of the two layouts: a plain dtype (safetensors, GGUF F32/F16/BF16/I32 …), or
// a GGUF block format; a type that is known by its size only has neither. MLX's codes, scales and biases stay
// plain tensors here; Checkpoint::matrix() joins them.
struct StoredTensor {
  std::optional<tensor::DType> dtype;
  std::optional<tensor::FormatKind> block_format;  // GGUF q4_0 …
  std::string_view type_name;                      // as the container spells it: "BF16", "Q4_K"
  std::vector<int64_t> shape;                      // row-major, outermost first (GGUF's order reversed)
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  int file = 0;  // index of the weight file that holds it
};

class Checkpoint {
 public:
  // `path`: a folder with config.json and safetensors (single, sharded with an index, or model*.safetensors),
  // a .gguf file (of a split one, any part), or what checkpoint_path.h leads to one of these. Validates every
  // header; maps, never reads, the weights.
  static base::Result<Checkpoint> open(const std::string& path);

  // What the header of a tensor says: `format` for matrices in one of its containers' formats or a plain
  // vector, stored as one tensor or, affine, as three.
  struct Declared {
    std::string module;  // without ".weight"
    tensor::NumberFormat format;
    std::vector<int64_t> shape;  // row-major
    bool is_bare = false;        // named `module` itself
  };
  // A checkpoint under Hugging Face's names that has headers only: every weight reads as zero and takes no
  // memory. `name` stands for the path. For counting what a model of these shapes would read.
  // Errors: invalid_data (the config's), out_of_memory (no address space left).
  static base::Result<Checkpoint> without_data(std::string name, std::string config_json,
                                               const std::vector<Declared>& tensors);

  Container container() const { return container_; }
  // The folder (safetensors) or the file (GGUF) that was opened.
  const std::string& path() const { return path_; }

  // --- tensors
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  // A weight matrix [rows, columns] by module path without ".weight" ("model.layers.0.mlp.up_proj",
  // "blk.0.ffn_up"). Joins what MLX keeps apart (codes, scales, biases) by the config's
  // quantization block. Checks shape and
  // format. Errors: not_found, invalid_data (shape differs from rows × columns: both are named; scales and
  // config disagree), unsupported (dtype, bits, group size or mode, named).
  base::Result<tensor::MatrixView> matrix(const std::string& module, int64_t rows, int64_t columns) const;

  // `count` matrices of one shape that lie one behind the other in one tensor [count, rows, columns], as
  // experts do. The tensor may also be named `module` itself. Joins triples, checks and fails as above.
  base::Result<std::vector<tensor::MatrixView>> matrices(const std::string& module, int64_t count,
                                                         int64_t rows, int64_t columns) const;

  // A vector by full tensor name. Errors as above.
  base::Result<tensor::VectorView> vector(const std::string& name, int64_t size) const;
  // All values of a float tensor of any shape, in the order of the file.
  base::Result<tensor::VectorView> floats(const std::string& name, const std::vector<int64_t>& shape) const;

  // --- metadata
  // Text of config.json (safetensors): valid UTF-8 and JSON without duplicate keys; empty for GGUF. Python's
  // NaN and Infinity are strings in it (strict_json.h).
  const std::string& config_json() const { return config_json_; }
  // The quantization block of config.json; not present for GGUF.
  const MlxQuantization& quantization() const { return quantization_; }
  // Content of a text file beside the weights ("tokenizer.json", "chat_template.jinja", …); nullopt if
  // absent, and always for GGUF, which carries everything inside.
  base::Result<std::optional<std::string>> sidecar(const std::string& name) const;
  // (name without the extension, content) of the text files in a folder beside the weights, by name; none if
  // there is no such folder, and always for GGUF. Error: more than 64 files.
  base::Result<std::vector<std::pair<std::string, std::string>>> sidecars(const std::string& folder,
                                                                          std::string_view extension) const;

  // GGUF metadata; empty for safetensors.
  const GgufMetadata& gguf_metadata() const { return gguf_metadata_; }
  // Values by key. Integers may be stored in any width (writers differ), numbers also as integers, and where
  // a list is asked for one value will do. Errors: not_found, invalid_data (another type, or out of int64's
  // range).
  base::Result<std::string> gguf_string(std::string_view key) const;
  base::Result<int64_t> gguf_integer(std::string_view key) const;
  base::Result<double> gguf_number(std::string_view key) const;
  base::Result<bool> gguf_bool(std::string_view key) const;
  base::Result<std::vector<int64_t>> gguf_integers(std::string_view key) const;
  base::Result<std::vector<double>> gguf_numbers(std::string_view key) const;
  // The strings in place; valid as long as the checkpoint.
  base::Result<const std::vector<std::string>*> gguf_strings(std::string_view key) const;
  // The same with a value for an absent key. A key of the wrong type is an error still.
  base::Result<std::string> gguf_string(std::string_view key, std::string fallback) const;
  base::Result<int64_t> gguf_integer(std::string_view key, int64_t fallback) const;
  base::Result<double> gguf_number(std::string_view key, double fallback) const;
  base::Result<bool> gguf_bool(std::string_view key, bool fallback) const;
  bool gguf_has(std::string_view key) const { return gguf_metadata_.find(key) != gguf_metadata_.end(); }

  // The weight files, mapped; StoredTensor::file counts them.
  const std::vector<base::MappedFile>& files() const { return files_; }
  // Bytes of all weight files.
  int64_t file_bytes() const;
  // Error if a mapped file shrank since it was opened.
  base::Status check_not_truncated() const;
  // The cheap half of it, for after every step: error if a read of a mapping has already failed.
  base::Status check_not_cut() const;
  // Fills the page tables of every mapping; blocks.
  void populate_blocking(const std::atomic<bool>& stopping) const;

 private:
  friend class SafetensorsReader;
  friend class GgufReader;

  // "model-00001-of-00002.safetensors: NAME", for errors.
  std::string where(std::string_view name, const StoredTensor* tensor = nullptr) const;
  base::Result<const StoredTensor*> find(const std::string& name) const;
  // The first of `count` matrices, the tensor's shape checked; 0: of a tensor without that dimension.
  base::Result<tensor::MatrixView> first_matrix(const std::string& module, int64_t count, int64_t rows,
                                                int64_t columns) const;
  base::Result<tensor::MatrixView> quantized_matrix(const std::string& module,
                                                    const MlxQuantization::Module& entry, int64_t count,
                                                    int64_t rows, int64_t columns) const;
  base::Result<const GgufValue*> gguf_value(std::string_view key) const;

  Container container_ = Container::safetensors;
  std::string path_;
  std::vector<base::MappedFile> files_;
  std::shared_ptr<const std::byte> zeros_;  // of a checkpoint without data
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::string config_json_;
  GgufMetadata gguf_metadata_;
  MlxQuantization quantization_;
};

}  // namespace rafter::format
