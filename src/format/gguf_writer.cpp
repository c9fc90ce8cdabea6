#include "format/gguf_writer.h"

#include "base/utf8.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

// The ids of metadata value types that are written.
constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9;
constexpr uint64_t kAlignment = 32;

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out.append(text);
}

template <typename T>
void put_numbers(std::string& out, uint32_t type, std::span<const T> values) {
  put(out, type);
  put<uint64_t>(out, values.size());
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

uint64_t align(uint64_t position) { return (position + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufWriter::put_key(std::string_view key, uint32_t type) {
  keys_.emplace(key);
  ++key_count_;
  put_text(metadata_, key);
  put(metadata_, type);
}

void GgufWriter::set_string(std::string_view key, std::string_view value) {
  put_key(key, kString);
  put_text(metadata_, value);
}

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  put_key(key, kU32);
  put(metadata_, value);
}

void GgufWriter::set_i32(std::string_view key, int32_t value) {
  put_key(key, kI32);
  put(metadata_, value);
}

void GgufWriter::set_f32(std::string_view key, float value) {
  put_key(key, kF32);
  put(metadata_, value);
}

void GgufWriter::set_bool(std::string_view key, bool value) {
  put_key(key, kBool);
  put<uint8_t>(metadata_, value ? 1 : 0);
}

void GgufWriter::set_strings(std::string_view key, std::span<const std::string> values) {
  put_key(key, kArray);
  put(metadata_, kString);
  put<uint64_t>(metadata_, values.size());
  for (const std::string& value : values) put_text(metadata_, value);
}

void GgufWriter::set_i32s(std::string_view key, std::span<const int32_t> values) {
  put_key(key, kArray);
  put_numbers(metadata_, kI32, values);
}

void GgufWriter::set_bools(std::string_view key, std::span<const int32_t> values) {
  std::vector<uint8_t> bytes;
  for (int32_t value : values) bytes.push_back(value != 0 ? 1 : 0);
  put_key(key, kArray);
  put_numbers(metadata_, kBool, std::span<const uint8_t>(bytes));
}

void GgufWriter::set_f32s(std::string_view key, std::span<const float> values) {
  put_key(key, kArray);
  put_numbers(metadata_, kF32, values);
}

base::Status GgufWriter::declare(const std::string& name, tensor::NumberFormat format,
                                 const std::vector<int64_t>& shape) {
  const auto misuse = [&](const char* what) {
    return base::Error{base::ErrorCode::invalid_argument, what, where_in(path_, name), ""};
  };
  if (name.empty() || !base::is_valid_utf8(name)) return misuse("not a tensor name");
  const GgufType* type = find_gguf_type(format);
  if (type == nullptr) return misuse("GGUF has no such number format");
  if (shape.empty() || shape.size() > 4) return misuse("not 1 to 4 dimensions");
  uint64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 1 || !multiply_fits(elements, static_cast<uint64_t>(size), elements))
      return misuse("not a shape");
  }
  if (shape.back() % type->block != 0) return misuse("rows are no whole number of blocks");
  if (!names_.insert(name).second) return misuse("declared twice");
  tensors_.push_back({name, type, shape, elements / type->block * type->block_bytes});
  return {};
}

base::Status GgufWriter::begin() {
  if (keys_.size() != key_count_) {
    return base::Error{base::ErrorCode::invalid_argument, "a metadata key was set twice", path_, ""};
  }
  std::string header = "GGUF";
  put<uint32_t>(header, 3);
  put<uint64_t>(header, tensors_.size());
  put<uint64_t>(header, key_count_);
  header += metadata_;
  std::vector<TensorPlace> places;
  uint64_t position = 0;
  for (const Declared& tensor : tensors_) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(header, *size);
    put(header, tensor.type->id);
    put(header, position);
    places.push_back({tensor.name, position, tensor.bytes});
    position = align(position + tensor.bytes);
  }
  header.resize(align(header.size()), '\0');
  for (TensorPlace& place : places) place.offset += header.size();
  RAFTER_ASSIGN(file_, TensorFile::create(path_, header, places, header.size() + position));
  return {};
}

}  // namespace rafter::format
