#include "format/safetensors_header.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/utf8.h"
#include "format/errors.h"
#include "format/strict_json.h"

namespace rafter::format {
namespace {

constexpr uint64_t kLargestHeader = 100'000'000;
constexpr size_t kDeepestJson = 8, kLargestRank = 16, kLongestName = 4096, kMostTensors = 1'000'000;
constexpr uint64_t kLargestDimension = 1ull << 53;

using tensor::DType;
constexpr std::array<SafetensorsType, 22> kTypes = {{
    {"F32", 32, DType::f32},        {"F16", 16, DType::f16},          {"BF16", 16, DType::bf16},
    {"F64", 64, DType::f64},        {"BOOL", 8, DType::boolean},      {"U8", 8, DType::u8},
    {"I8", 8, DType::i8},           {"U16", 16, DType::u16},          {"I16", 16, DType::i16},
    {"U32", 32, DType::u32},        {"I32", 32, DType::i32},          {"U64", 64, DType::u64},
    {"I64", 64, DType::i64},        {"F8_E4M3", 8, DType::f8_e4m3},   {"F8_E5M2", 8, DType::f8_e5m2},
    {"F8_E8M0", 8, DType::f8_e8m0}, {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E5M2FNUZ", 8, std::nullopt},
    {"C64", 64, std::nullopt},      {"F4", 4, std::nullopt},          {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
}};

// Collects entries; everything that one entry alone can violate is checked here.
class HeaderVisitor : public JsonVisitor {
 public:
  HeaderVisitor(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  base::Status value(std::span<const std::string> path, const JsonEvent& event) override {
    if (path.empty()) return expect(event.kind == JsonKind::object, "header", "is not an object");
    const std::string& name = path[0];
    if (name == "__metadata__") return metadata_value(path, event);
    if (path.size() == 1) return begin_tensor(name, event);
    const std::string& field = path[1];
    if (field == "dtype") return dtype_value(name, path.size(), event);
    if (field == "shape") return shape_value(name, path.size(), event);
    if (field == "data_offsets") return offset_value(name, path.size(), event);
    return {};
  }

  base::Status end(std::span<const std::string> path) override {
    if (path.size() != 1 || path[0] == "__metadata__") return {};
    const std::string& name = path[0];
    RAFTER_TRY(expect(tensor().type != nullptr, name, "has no dtype"));
    RAFTER_TRY(expect(has_shape_, name, "has no shape"));
    return expect(offset_count_ == 2, name, "needs data_offsets of two numbers");
  }

 private:
  SafetensorsTensor& tensor() { return header_.tensors.back(); }

  base::Status expect(bool holds, const std::string& name, const char* what) const {
    return holds ? base::Status() : base::Status(invalid(where_in(where_, name), "{}", what));
  }

  base::Status metadata_value(std::span<const std::string> path, const JsonEvent& event) {
    if (path.size() == 1) return expect(event.kind == JsonKind::object, path[0], "is not an object");
    RAFTER_TRY(expect(event.kind == JsonKind::string, path[0], "holds something other than strings"));
    header_.metadata.emplace(path[1], event.string);
    return {};
  }

  base::Status begin_tensor(const std::string& name, const JsonEvent& event) {
    RAFTER_TRY(
        expect(!name.empty() && name.size() <= kLongestName, name, "tensor name is empty or too long"));
    RAFTER_TRY(expect(name.find('\0') == std::string::npos, name, "tensor name holds a NUL"));
    RAFTER_TRY(expect(event.kind == JsonKind::object, name, "is not an object"));
    RAFTER_TRY(expect(header_.tensors.size() < kMostTensors, name, "the file has too many tensors"));
    header_.tensors.emplace_back().name = name;
    has_shape_ = false;
    offset_count_ = 0;
    return {};
  }

  base::Status dtype_value(const std::string& name, size_t depth, const JsonEvent& event) {
    RAFTER_TRY(expect(depth == 2 && event.kind == JsonKind::string, name, "dtype is not a string"));
    tensor().type = find_safetensors_type(event.string);
    if (tensor().type == nullptr)
      return unsupported(where_in(where_, name), "unknown dtype {}", printable(event.string));
    return {};
  }

  base::Status shape_value(const std::string& name, size_t depth, const JsonEvent& event) {
    if (depth == 2) {
      has_shape_ = true;
      return expect(event.kind == JsonKind::array, name, "shape is not an array");
    }
    RAFTER_TRY(expect(event.kind == JsonKind::integer && event.integer <= kLargestDimension, name,
                      "shape holds something other than whole numbers up to 2^53"));
    RAFTER_TRY(expect(tensor().shape.size() < kLargestRank, name, "shape has more than 16 dimensions"));
    tensor().shape.push_back(static_cast<int64_t>(event.integer));
    return {};
  }

  base::Status offset_value(const std::string& name, size_t depth, const JsonEvent& event) {
    if (depth == 2) return expect(event.kind == JsonKind::array, name, "data_offsets is not an array");
    RAFTER_TRY(expect(event.kind == JsonKind::integer, name,
                      "data_offsets holds something other than whole numbers"));
    RAFTER_TRY(expect(offset_count_ < 2, name, "data_offsets has more than two numbers"));
    (offset_count_++ == 0 ? tensor().begin : tensor().end) = event.integer;
    return {};
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  bool has_shape_ = false;
  int offset_count_ = 0;
};

// Bytes of a tensor by its shape; false where they overflow or are not whole.
bool shape_bytes(const SafetensorsTensor& tensor, uint64_t& bytes) {
  bytes = 0;
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return true;
  uint64_t bits = static_cast<uint64_t>(tensor.type->bits);
  for (int64_t dimension : tensor.shape) {
    if (!multiply_fits(bits, static_cast<uint64_t>(dimension), bits)) return false;
  }
  bytes = bits / 8;
  return bits % 8 == 0;
}

base::Status check_tensor_bytes(const SafetensorsTensor& tensor, uint64_t buffer_bytes,
                                const std::string& where) {
  uint64_t bytes = 0;
  if (!shape_bytes(tensor, bytes)) {
    return invalid(where_in(where, tensor.name), "its shape makes no whole number of bytes, or too many");
  }
  if (tensor.begin > tensor.end || tensor.end > buffer_bytes) {
    return invalid(where_in(where, tensor.name), "data_offsets [{}, {}] do not lie in the data of {} bytes",
                   tensor.begin, tensor.end, buffer_bytes);
  }
  if (tensor.end - tensor.begin != bytes) {
    return invalid(where_in(where, tensor.name), "data_offsets hold {} bytes but its shape needs {}",
                   tensor.end - tensor.begin, bytes);
  }
  return {};
}

base::Status check_contiguous(SafetensorsHeader& header, uint64_t buffer_bytes, const std::string& where) {
  std::sort(
      header.tensors.begin(), header.tensors.end(),
      [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.name < b.name;
      });
  uint64_t position = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin != position) {
      return invalid(where_in(where, tensor.name),
                     "its data begins at {} where the previous tensor ends at {}", tensor.begin, position);
    }
    position = tensor.end;
  }
  if (position != buffer_bytes) {
    return invalid(where, "tensors end at {} but the file's data has {} bytes", position, buffer_bytes);
  }
  return {};
}

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const SafetensorsType& safetensors_type(tensor::DType dtype) {
  for (const SafetensorsType& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  RAFTER_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

base::Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file,
                                                         const std::string& where) {
  if (file.size() < 8) return invalid(where, "a file of {} bytes is no safetensors file", file.size());
  const uint64_t length = tensor::load_unaligned<uint64_t>(file.data());
  if (length == 0 || length > kLargestHeader) {
    return invalid(where, "its header length {} is not between 1 and {}", length, kLargestHeader);
  }
  if (length > file.size() - 8) {
    return invalid(where, "its header of {} bytes runs past the end of the file ({} bytes)", length,
                   file.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (text[0] != '{') return invalid(where, "its header does not begin with {{");

  SafetensorsHeader header;
  header.data_start = 8 + length;
  HeaderVisitor visitor(header, where);
  RAFTER_TRY(parse_strict_json(text, kDeepestJson, where, visitor));
  const uint64_t buffer_bytes = file.size() - header.data_start;
  for (const SafetensorsTensor& tensor : header.tensors)
    RAFTER_TRY(check_tensor_bytes(tensor, buffer_bytes, where));
  RAFTER_TRY(check_contiguous(header, buffer_bytes, where));
  return header;
}

}  // namespace rafter::format
