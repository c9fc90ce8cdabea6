#include <algorithm>
#include <filesystem>
#include <set>

#include "format/errors.h"
#include "format/readers.h"
#include "format/safetensors_header.h"
#include "format/shard_index.h"
#include "format/strict_json.h"

namespace rafter::format {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kLargestConfig = 16 << 20, kLargestIndex = 100'000'000;

bool exists(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(fs::path(folder) / name, error);
}

base::Result<std::string> read_file(const std::string& folder, const char* name, uint64_t limit) {
  RAFTER_ASSIGN(const std::string path, file_in_folder(folder, name));
  std::error_code error;
  if (const auto status = fs::status(path, error); fs::exists(status) && !fs::is_regular_file(status)) {
    return invalid(path, "not a regular file");
  }
  return base::read_text_file(path, limit);
}

// The weight files of a folder, sorted.
base::Result<std::vector<std::string>> weight_files(const std::string& folder,
                                                    const std::map<std::string, std::string>& index) {
  std::set<std::string> files;
  for (const auto& [tensor, file] : index) files.insert(file);
  if (files.empty() && exists(folder, "model.safetensors")) files.insert("model.safetensors");
  if (files.empty()) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with("model") && name.ends_with(".safetensors")) files.insert(name);
    }
  }
  if (!files.empty()) return std::vector<std::string>(files.begin(), files.end());
  return base::Error{base::ErrorCode::not_found, "no weights: neither an index nor model*.safetensors",
                     folder, "the download may be incomplete"};
}

}  // namespace

base::Status SafetensorsReader::add_file(Checkpoint& checkpoint, const std::string& path) {
  RAFTER_ASSIGN(base::MappedFile mapped, base::MappedFile::open(path));
  RAFTER_ASSIGN(SafetensorsHeader header, parse_safetensors_header(mapped.bytes(), path));
  const std::byte* data = mapped.bytes().data() + header.data_start;
  for (SafetensorsTensor& tensor : header.tensors) {
    StoredTensor stored;
    stored.dtype = tensor.type->dtype;
    stored.type_name = tensor.type->name;
    stored.shape = std::move(tensor.shape);
    stored.data = data + tensor.begin;
    stored.bytes = static_cast<int64_t>(tensor.end - tensor.begin);
    stored.file = static_cast<int>(checkpoint.files_.size());
    const auto [entry, is_new] = checkpoint.tensors_.try_emplace(tensor.name, std::move(stored));
    if (!is_new) {
      const std::string& other = checkpoint.files_[static_cast<size_t>(entry->second.file)].path();
      base::Error error = invalid(where_in(path, tensor.name), "the tensor is in {} too", other);
      error.hint = "remove the file that does not belong to the model";
      return error;
    }
  }
  checkpoint.files_.push_back(std::move(mapped));
  return {};
}

base::Result<Checkpoint> SafetensorsReader::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.container_ = Container::safetensors;
  checkpoint.path_ = folder;
  RAFTER_ASSIGN(std::string config, read_file(folder, "config.json", kLargestConfig));
  checkpoint.config_json_ = quote_non_finite_numbers(std::move(config));
  RAFTER_ASSIGN(checkpoint.quantization_,
                parse_mlx_quantization(checkpoint.config_json_, (fs::path(folder) / "config.json").string()));

  constexpr const char* kIndexName = "model.safetensors.index.json";
  const std::string index_path = (fs::path(folder) / kIndexName).string();
  std::map<std::string, std::string> index;
  if (exists(folder, kIndexName)) {
    RAFTER_ASSIGN(const std::string text, read_file(folder, kIndexName, kLargestIndex));
    RAFTER_ASSIGN(index, parse_shard_index(text, index_path));
  }
  RAFTER_ASSIGN(const auto files, weight_files(folder, index));
  for (const std::string& name : files) {
    RAFTER_ASSIGN(const std::string path, file_in_folder(folder, name));
    RAFTER_TRY(add_file(checkpoint, path));
  }
  for (const auto& [tensor, file] : index) {
    const auto found = checkpoint.tensors_.find(tensor);
    if (found == checkpoint.tensors_.end() || files[static_cast<size_t>(found->second.file)] != file) {
      return invalid(where_in(index_path, tensor), "the tensor is not in {}, where the index puts it", file);
    }
  }
  return checkpoint;
}

}  // namespace rafter::format
