#include "format/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "format/errors.h"
#include "format/safetensors_header.h"

namespace rafter::format {

SafetensorsWriter::SafetensorsWriter(std::string path, std::map<std::string, std::string> metadata)
    : path_(std::move(path)), metadata_(std::move(metadata)) {}

base::Status SafetensorsWriter::declare(const std::string& name, tensor::DType dtype,
                                        const std::vector<int64_t>& shape) {
  const auto misuse = [&](const char* what) {
    return base::Error{base::ErrorCode::invalid_argument, what, where_in(path_, name), ""};
  };
  if (name.empty() || name == "__metadata__" || !base::is_valid_utf8(name))
    return misuse("not a tensor name");
  uint64_t bytes = static_cast<uint64_t>(tensor::dtype_bytes(dtype));
  for (int64_t size : shape) {
    if (size < 0 || !multiply_fits(bytes, static_cast<uint64_t>(size), bytes)) return misuse("not a shape");
  }
  if (!tensors_.try_emplace(name, Declared{dtype, shape, bytes}).second) return misuse("declared twice");
  return {};
}

base::Status SafetensorsWriter::begin() {
  constexpr uint64_t kAlignment = 64;
  std::vector<const std::pair<const std::string, Declared>*> order;
  for (const auto& entry : tensors_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const int a_bytes = tensor::dtype_bytes(a->second.dtype), b_bytes = tensor::dtype_bytes(b->second.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->first < b->first;
  });
  const auto member = [](const std::string& name, const nlohmann::json& value) {
    return nlohmann::json(name).dump() + ":" + value.dump() + ",";
  };
  std::string text = "{";
  if (!metadata_.empty()) text += member("__metadata__", metadata_);
  std::vector<TensorPlace> places;
  uint64_t position = 0;
  for (const auto* entry : order) {
    const Declared& tensor = entry->second;
    text += member(entry->first, {{"dtype", safetensors_type(tensor.dtype).name},
                                  {"shape", tensor.shape},
                                  {"data_offsets", {position, position + tensor.bytes}}});
    places.push_back({entry->first, position, tensor.bytes});
    position += tensor.bytes;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.append((kAlignment - (8 + text.size()) % kAlignment) % kAlignment, ' ');
  const uint64_t data_start = 8 + text.size();
  for (TensorPlace& place : places) place.offset += data_start;
  std::string bytes(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  RAFTER_ASSIGN(file_, TensorFile::create(path_, bytes + text, places, data_start + position));
  return {};
}

}  // namespace rafter::format
