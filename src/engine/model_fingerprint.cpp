#include "engine/model_fingerprint.h"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

namespace rafter::engine {
namespace {

constexpr int64_t kSampleBytes = 256;

class Hash {
 public:
  void add(const void* data, size_t bytes) { value_ = XXH64(data, bytes, value_); }
  void add(const std::string& text) {
    add(static_cast<int64_t>(text.size()));
    add(text.data(), text.size());
  }
  void add(int64_t number) { add(&number, sizeof(number)); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace

uint64_t model_fingerprint(const format::Checkpoint& checkpoint, const std::string& computed_by) {
  Hash hash;
  hash.add(computed_by);
  hash.add(checkpoint.config_json());
  // What lies in front of a file's first tensor is its header.
  const std::vector<base::MappedFile>& files = checkpoint.files();
  std::vector<int64_t> headers;
  for (const base::MappedFile& file : files) headers.push_back(static_cast<int64_t>(file.bytes().size()));
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (static_cast<size_t>(tensor.file) >= files.size()) continue;
    const auto file = static_cast<size_t>(tensor.file);
    headers[file] = std::min<int64_t>(headers[file], tensor.data - files[file].bytes().data());
  }
  for (size_t file = 0; file < files.size(); ++file) {
    hash.add(static_cast<int64_t>(files[file].bytes().size()));
    hash.add(files[file].bytes().data(), static_cast<size_t>(headers[file]));
  }
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const int64_t bytes = std::min(tensor.bytes, kSampleBytes);
    hash.add(name);
    hash.add(tensor.data + (tensor.bytes - bytes) / 2, static_cast<size_t>(bytes));
  }
  return hash.value();
}

}  // namespace rafter::engine
