// Model files made by hand, right or wrong, and the checks that every opened checkpoint must pass.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint.h"
#include "tests/support/codec_vectors.h"

namespace rafter::testing {

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename T>
std::string packed(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A safetensors file from its header's text and its data.
inline std::string safetensors_file(std::string_view header, std::string_view data = "") {
  return packed<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// The pieces of a GGUF file, each replaceable by something wrong.
struct GgufParts {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<std::string> keys, tensors;  // whole records
  std::optional<uint64_t> key_count, tensor_count;
  std::string data;

  static std::string text(std::string_view value) {
    return packed<uint64_t>(value.size()) + std::string(value);
  }
  static std::string key(std::string_view name, uint32_t type, std::string_view value) {
    return text(name) + packed(type) + std::string(value);
  }
  static std::string tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                            uint64_t offset) {
    std::string record = text(name) + packed(static_cast<uint32_t>(sizes.size()));
    for (uint64_t size : sizes) record += packed(size);
    return record + packed(type) + packed(offset);
  }

  std::string file() const {
    std::string out = magic + packed(version) + packed(tensor_count.value_or(tensors.size())) +
                      packed(key_count.value_or(keys.size()));
    for (const std::string& record : keys) out += record;
    for (const std::string& record : tensors) out += record;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

// What is wrong with an opened checkpoint; "" for nothing. Every view must lie inside one mapping, hold the
// bytes that its shape and type need, overlap no other, and be readable.
inline std::string views_fault(const std::map<std::string, format::StoredTensor, std::less<>>& tensors,
                               const std::vector<base::MappedFile>& files) {
  std::vector<std::pair<const std::byte*, const std::byte*>> taken;
  volatile uint8_t sink = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.file < 0 || static_cast<size_t>(tensor.file) >= files.size()) return name + ": no such file";
    const auto file = files[static_cast<size_t>(tensor.file)].bytes();
    if (tensor.bytes < 0 || tensor.data < file.data() ||
        tensor.data + tensor.bytes > file.data() + file.size()) {
      return name + ": outside the mapping";
    }
    int64_t elements = 1;
    for (int64_t size : tensor.shape) elements *= size;
    if (tensor.dtype.has_value() && elements * tensor::dtype_bytes(*tensor.dtype) != tensor.bytes) {
      return name + ": its bytes are not those of its shape";
    }
    if (tensor.block_format.has_value() &&
        tensor::NumberFormat::block(*tensor.block_format).row_bytes(elements) != tensor.bytes) {
      return name + ": its bytes are not those of its shape";
    }
    for (int64_t i = 0; i < tensor.bytes; ++i) sink = sink + std::to_integer<uint8_t>(tensor.data[i]);
    if (tensor.bytes > 0) taken.emplace_back(tensor.data, tensor.data + tensor.bytes);
  }
  std::sort(taken.begin(), taken.end());
  for (size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second) return "two tensors overlap";
  }
  return "";
}

// Compares with a fixture's `expected` file, bit for bit; "" if equal.
inline std::string difference_from_expected(const format::Checkpoint& checkpoint,
                                            const std::string& expected_path) {
  std::ifstream file(expected_path);
  std::string name, hex;
  int64_t rows = 0, columns = 0;
  int compared = 0;
  while (file >> name >> rows >> columns >> hex) {
    const auto bytes = bytes_from_hex(hex);
    std::vector<float> want(bytes.size() / 4), got(want.size());
    std::memcpy(want.data(), bytes.data(), bytes.size());
    if (rows == 0) {
      auto view = checkpoint.vector(name, columns);
      if (!view.ok()) return view.error().message();
      for (int64_t i = 0; i < columns; ++i) got[static_cast<size_t>(i)] = view->at(i);
    } else {
      auto view = checkpoint.matrix(name, rows, columns);
      if (!view.ok()) return view.error().message();
      for (int64_t r = 0; r < rows; ++r) {
        tensor::decode_row(
            *view, r, std::span(got).subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns)));
      }
    }
    if (got != want) return name + ": values differ";
    ++compared;
  }
  return compared > 0 ? "" : "nothing to compare in " + expected_path;
}

}  // namespace rafter::testing
