// A safetensors file of expected values.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/mapped_file.h"
#include "format/safetensors_header.h"

namespace rafter::testing {

class TensorFile {
 public:
  explicit TensorFile(const std::string& path)
      : file_(base::MappedFile::open(path).value()),
        header_(format::parse_safetensors_header(file_.bytes(), path).value()) {}

  bool has(const std::string& name) const {
    for (const format::SafetensorsTensor& tensor : header_.tensors) {
      if (tensor.name == name) return true;
    }
    return false;
  }

  // All elements of a tensor; `columns` gets its last dimension.
  template <typename T>
  std::vector<T> read(const std::string& name, int64_t* columns = nullptr) const {
    for (const format::SafetensorsTensor& tensor : header_.tensors) {
      if (tensor.name != name) continue;
      std::vector<T> values((tensor.end - tensor.begin) / sizeof(T));
      std::memcpy(values.data(), file_.bytes().data() + header_.data_start + tensor.begin,
                  tensor.end - tensor.begin);
      if (columns != nullptr) *columns = tensor.shape.back();
      return values;
    }
    RAFTER_CHECK(false, "{} has no {}", file_.path(), name);
  }

 private:
  base::MappedFile file_;
  format::SafetensorsHeader header_;
};

}  // namespace rafter::testing
