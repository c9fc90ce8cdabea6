#include <charconv>

#include "format/errors.h"
#include "format/gguf_header.h"
#include "format/readers.h"

namespace rafter::format {
namespace {

constexpr size_t kSplitSuffix = sizeof("-00001-of-00002.gguf") - 1;
constexpr int64_t kMostParts = 1024;  // as many mappings

// PREFIX-00001-of-00003.gguf, part counted from 1.
std::string part_path(const std::string& prefix, int64_t part, int64_t parts) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part, parts);
}

// The integer of a split.* key; `absent` without one, −1 for a value of another kind.
int64_t split_value(const GgufMetadata& metadata, const char* key, int64_t absent) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return absent;
  if (const auto* value = std::get_if<int64_t>(&found->second.value)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&found->second.value)) {
    return *value <= INT64_MAX ? static_cast<int64_t>(*value) : -1;
  }
  return -1;
}

// Parts after the first usually hold no metadata but split.*; what they repeat must agree. Returns the key
// that does not, "" for none.
std::string contradicted_key(const GgufMetadata& first, const GgufMetadata& part) {
  for (const auto& [key, value] : part) {
    if (!key.starts_with("general.") && key != "split.tensors.count") continue;
    const auto other = first.find(key);
    if (other == first.end()) continue;
    if (value.value.index() != other->second.value.index()) return key;
    const bool differs = std::visit(
        [&](const auto& mine) {
          using Value = std::decay_t<decltype(mine)>;
          if constexpr (std::is_same_v<Value, GgufArray>) {
            return false;
          } else {
            return mine != std::get<Value>(other->second.value);
          }
        },
        value.value);
    if (differs) return key;
  }
  return "";
}

}  // namespace

// Maps one file, part `part` of `parts` counted from 0, and adds its tensors (and the first one's metadata).
base::Status GgufReader::add_file(Checkpoint& checkpoint, const std::string& path, int64_t part,
                                  int64_t parts) {
  RAFTER_ASSIGN(base::MappedFile mapped, base::MappedFile::open(path));
  RAFTER_ASSIGN(GgufHeader header, parse_gguf_header(mapped.bytes(), path));
  if (parts > 1 && (split_value(header.metadata, "split.no", -1) != part ||
                    split_value(header.metadata, "split.count", -1) != parts)) {
    return invalid(path, "the file does not say that it is part {} of {}", part + 1, parts);
  }
  if (const std::string key = contradicted_key(checkpoint.gguf_metadata_, header.metadata); !key.empty()) {
    base::Error error = invalid(where_in(path, key), "the value is not that of the first part");
    error.hint = "the parts are of different models";
    return error;
  }
  const std::byte* data = mapped.bytes().data() + header.data_start;
  for (GgufTensor& tensor : header.tensors) {
    StoredTensor stored;
    stored.dtype = tensor.type->dtype;
    stored.block_format = tensor.type->block_format;
    stored.type_name = tensor.type->name;
    stored.shape = std::move(tensor.shape);
    stored.data = data + tensor.offset;
    stored.bytes = static_cast<int64_t>(tensor.bytes);
    stored.file = static_cast<int>(checkpoint.files_.size());
    if (!checkpoint.tensors_.try_emplace(tensor.name, std::move(stored)).second) {
      return invalid(where_in(path, tensor.name), "the tensor is in an earlier part too");
    }
  }
  if (part == 0) checkpoint.gguf_metadata_ = std::move(header.metadata);
  checkpoint.files_.push_back(std::move(mapped));
  return {};
}

base::Result<Checkpoint> GgufReader::open(const std::string& path) {
  const auto start = [](const std::string& file) -> base::Result<Checkpoint> {
    Checkpoint checkpoint;
    checkpoint.container_ = Container::gguf;
    checkpoint.path_ = file;
    RAFTER_TRY(add_file(checkpoint, file, 0, 1));
    return checkpoint;
  };
  RAFTER_ASSIGN(Checkpoint checkpoint, start(path));
  const int64_t parts = split_value(checkpoint.gguf_metadata_, "split.count", 1);
  if (parts == 0 || parts == 1) return checkpoint;
  if (parts < 0 || parts > kMostParts) return invalid(where_in(path, "split.count"), "not a number of parts");

  const std::string prefix = path.substr(0, path.size() - std::min(path.size(), kSplitSuffix));
  const int64_t part = split_value(checkpoint.gguf_metadata_, "split.no", -1);
  if (part < 0 || part >= parts || path != part_path(prefix, part + 1, parts)) {
    base::Error error = invalid(path, "part {} of a file split into {}, under another name", part + 1, parts);
    error.hint = "parts are found by their names: NAME-00001-of-00002.gguf";
    return error;
  }
  if (part != 0) {
    RAFTER_ASSIGN(checkpoint, start(part_path(prefix, 1, parts)));
  }
  for (int64_t i = 1; i < parts; ++i) {
    base::Status added = add_file(checkpoint, part_path(prefix, i + 1, parts), i, parts);
    if (!added.ok() && added.error().code == base::ErrorCode::not_found) {
      base::Error error = added.error();
      error.what = fmt::format("part {} of {} is missing", i + 1, parts);
      error.hint = "download it, too, into the same folder";
      return error;
    }
    RAFTER_TRY(std::move(added));
  }
  const int64_t tensors = static_cast<int64_t>(checkpoint.tensors_.size());
  if (const int64_t declared = split_value(checkpoint.gguf_metadata_, "split.tensors.count", tensors);
      declared != tensors) {
    return invalid(where_in(checkpoint.path_, "split.tensors.count"), "{} tensors declared, {} found",
                   declared, tensors);
  }
  return checkpoint;
}

}  // namespace rafter::format
