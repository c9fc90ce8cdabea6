#include "format/gguf_header.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/utf8.h"
#include "format/byte_cursor.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMostKeys = 100'000, kMostTensors = 1'000'000;
constexpr uint64_t kLongestKey = 64 << 10, kLongestName = 4096;
// What strings may make this process allocate: a vocabulary and its merges take some ten MB.
constexpr uint64_t kMostStrings = 4'000'000, kMostStringBytes = 256ull << 20;
constexpr uint64_t kSmallestKeyRecord = 8 + 4 + 1, kSmallestTensorRecord = 8 + 4 + 8 + 4 + 8;
constexpr uint64_t kLargestAlignment = 1 << 20;

// The ids of metadata value types.
enum : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypeCount
};

tensor::DType dtype_of(uint32_t type) {
  using tensor::DType;
  constexpr DType kDTypes[kTypeCount] = {DType::u8,  DType::i8,  DType::u16,     DType::i16, DType::u32,
                                         DType::i32, DType::f32, DType::boolean, DType::u8,  DType::u8,
                                         DType::u64, DType::i64, DType::f64};
  return kDTypes[type];
}

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> file, const std::string& where)
      : file_(file), where_(where), cursor_(file) {}

  base::Result<GgufHeader> parse() {
    RAFTER_TRY(read_preamble());
    for (uint64_t i = 0; i < key_count_; ++i) RAFTER_TRY(read_key());
    RAFTER_TRY(read_alignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) RAFTER_TRY(read_tensor());
    RAFTER_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  base::Error cut_short(const char* what) const {
    return invalid(where_, "the file ends inside {} (byte {} of {})", what, cursor_.position(), file_.size());
  }

  base::Status read_preamble() {
    uint32_t magic = 0;
    if (!cursor_.read(magic) || magic != kMagic)
      return invalid(where_, "not a GGUF file: it does not begin with \"GGUF\"");
    if (!cursor_.read(header_.version)) return cut_short("the header");
    const uint32_t version = header_.version;
    if (version != 0 && (version & 0xFFFF) == 0) {
      return unsupported(where_, "the file is big-endian (version {:#010x})", version);
    }
    if (version == 1)
      return unsupported(where_, "GGUF version 1 is not supported; convert the file to version 3");
    if (version != 2 && version != 3) return unsupported(where_, "GGUF version {} is not supported", version);
    if (!cursor_.read(tensor_count_) || !cursor_.read(key_count_)) return cut_short("the header");
    if (key_count_ > std::min(kMostKeys, cursor_.remaining() / kSmallestKeyRecord)) {
      return invalid(where_, "{} metadata keys do not fit a file of {} bytes", key_count_, file_.size());
    }
    if (tensor_count_ > std::min(kMostTensors, cursor_.remaining() / kSmallestTensorRecord)) {
      return invalid(where_, "{} tensors do not fit a file of {} bytes", tensor_count_, file_.size());
    }
    return {};
  }

  base::Status read_key() {
    std::string_view key;
    uint32_t type = 0;
    if (!cursor_.read_string(key)) return cut_short("a metadata key");
    if (key.empty() || key.size() > kLongestKey || !base::is_valid_utf8(key)) {
      return invalid(where_in(where_, key), "a metadata key is empty, too long or not UTF-8");
    }
    if (!cursor_.read(type)) return cut_short("a metadata value");
    const auto [entry, is_new] = header_.metadata.try_emplace(std::string(key));
    if (!is_new) return invalid(where_in(where_, key), "duplicate metadata key");
    return type == kArray ? read_array(key, entry->second) : read_scalar(key, type, entry->second);
  }

  template <typename Stored, typename Kept>
  base::Status read_number(GgufValue& out) {
    Stored value{};
    if (!cursor_.read(value)) return cut_short("a metadata value");
    out.value = static_cast<Kept>(value);
    return {};
  }

  base::Status read_scalar(std::string_view key, uint32_t type, GgufValue& out) {
    switch (type) {
      case kU8:
        return read_number<uint8_t, uint64_t>(out);
      case kI8:
        return read_number<int8_t, int64_t>(out);
      case kU16:
        return read_number<uint16_t, uint64_t>(out);
      case kI16:
        return read_number<int16_t, int64_t>(out);
      case kU32:
        return read_number<uint32_t, uint64_t>(out);
      case kI32:
        return read_number<int32_t, int64_t>(out);
      case kU64:
        return read_number<uint64_t, uint64_t>(out);
      case kI64:
        return read_number<int64_t, int64_t>(out);
      case kF32:
        return read_number<float, double>(out);
      case kF64:
        return read_number<double, double>(out);
      case kBool: {
        uint8_t value = 0;
        if (!cursor_.read(value)) return cut_short("a metadata value");
        if (value > 1) return invalid(where_in(where_, key), "a boolean holds {}", value);
        out.value = value == 1;
        return {};
      }
      case kString: {
        std::string text;
        RAFTER_TRY(copy_string(key, text));
        out.value = std::move(text);
        return {};
      }
      default:
        return invalid(where_in(where_, key), "unknown metadata type {}", type);
    }
  }

  base::Status copy_string(std::string_view key, std::string& text) {
    std::string_view view;
    if (!cursor_.read_string(view)) return cut_short("a string");
    string_bytes_ += view.size();
    if (++strings_ > kMostStrings || string_bytes_ > kMostStringBytes) {
      return invalid(where_in(where_, key), "the metadata holds more than {} strings or {} bytes of text",
                     kMostStrings, kMostStringBytes);
    }
    text = view;
    return {};
  }

  base::Status read_array(std::string_view key, GgufValue& out) {
    uint32_t type = 0;
    uint64_t count = 0;
    if (!cursor_.read(type) || !cursor_.read(count)) return cut_short("a metadata array");
    if (type >= kTypeCount || type == kArray) {
      return invalid(where_in(where_, key), "an array of {}", type == kArray ? "arrays" : "an unknown type");
    }
    if (type == kString) return read_strings(key, count, out);
    GgufArray array{dtype_of(type), count, nullptr};
    uint64_t bytes = 0;
    if (!multiply_fits(count, static_cast<uint64_t>(tensor::dtype_bytes(array.type)), bytes) ||
        !cursor_.take(bytes, array.data)) {
      return invalid(where_in(where_, key), "an array of {} elements runs past the end of the file", count);
    }
    if (type == kBool) {
      for (uint64_t i = 0; i < count; ++i) {
        if (array.integer(i) > 1)
          return invalid(where_in(where_, key), "a boolean holds {}", array.integer(i));
      }
    }
    out.value = array;
    return {};
  }

  base::Status read_strings(std::string_view key, uint64_t count, GgufValue& out) {
    if (count > cursor_.remaining() / 8) {
      return invalid(where_in(where_, key), "an array of {} strings runs past the end of the file", count);
    }
    if (count > kMostStrings) return invalid(where_in(where_, key), "an array of {} strings", count);
    std::vector<std::string> texts(count);
    for (std::string& text : texts) RAFTER_TRY(copy_string(key, text));
    out.value = std::move(texts);
    return {};
  }

  base::Status read_alignment() {
    const auto found = header_.metadata.find("general.alignment");
    if (found == header_.metadata.end()) return {};
    const auto* value = std::get_if<uint64_t>(&found->second.value);
    const auto* signed_value = std::get_if<int64_t>(&found->second.value);
    alignment_ = value != nullptr          ? *value
                 : signed_value != nullptr ? static_cast<uint64_t>(std::max<int64_t>(*signed_value, 0))
                                           : 0;
    if (!std::has_single_bit(alignment_) || alignment_ > kLargestAlignment) {
      return invalid(where_in(where_, "general.alignment"), "not a power of two between 1 and {}",
                     kLargestAlignment);
    }
    return {};
  }

  base::Status read_tensor() {
    std::string_view name;
    if (!cursor_.read_string(name)) return cut_short("a tensor's name");
    const std::string where = where_in(where_, name);
    if (name.empty() || name.size() > kLongestName || !base::is_valid_utf8(name) ||
        name.find('\0') != std::string_view::npos) {
      return invalid(where, "a tensor name is empty, too long or not UTF-8");
    }
    if (!names_.insert(name).second) return invalid(where, "duplicate tensor name");
    GgufTensor tensor;
    tensor.name = name;
    RAFTER_TRY(read_shape(where, tensor.shape));
    uint32_t type = 0;
    if (!cursor_.read(type) || !cursor_.read(tensor.offset)) return cut_short("a tensor's record");
    tensor.type = find_gguf_type(type);
    if (tensor.type == nullptr) {
      base::Error error = unsupported(where, "unknown tensor type {}", type);
      error.hint = gguf_type_remark(type);
      return error;
    }
    RAFTER_TRY(size_tensor(where, tensor));
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  base::Status read_shape(const std::string& where, std::vector<int64_t>& shape) {
    uint32_t rank = 0;
    if (!cursor_.read(rank)) return cut_short("a tensor's record");
    if (rank < 1 || rank > 4) return invalid(where, "{} dimensions instead of 1 to 4", rank);
    shape.resize(rank);
    for (uint32_t i = 0; i < rank; ++i) {
      uint64_t size = 0;
      if (!cursor_.read(size)) return cut_short("a tensor's record");
      if (size < 1 || size >> 63 != 0) return invalid(where, "a dimension of {}", size);
      shape[rank - 1 - i] = static_cast<int64_t>(size);
    }
    return {};
  }

  base::Status size_tensor(const std::string& where, GgufTensor& tensor) {
    uint64_t elements = 1;
    for (int64_t size : tensor.shape) {
      if (!multiply_fits(elements, static_cast<uint64_t>(size), elements) || elements >> 63 != 0) {
        return invalid(where, "its shape has too many elements");
      }
    }
    const uint64_t row = static_cast<uint64_t>(tensor.shape.back());
    if (row % tensor.type->block != 0) {
      return invalid(where, "rows of {} elements are no whole number of {} blocks of {}", row,
                     tensor.type->name, tensor.type->block);
    }
    if (!multiply_fits(elements / tensor.type->block, tensor.type->block_bytes, tensor.bytes)) {
      return invalid(where, "its shape has too many elements");
    }
    if (tensor.offset % alignment_ != 0) {
      return invalid(where, "its offset {} is no multiple of the alignment {}", tensor.offset, alignment_);
    }
    return {};
  }

  // Every tensor inside the data, none over another. Padding between them is legal.
  base::Status place_tensors() {
    header_.data_start = (cursor_.position() + alignment_ - 1) / alignment_ * alignment_;
    if (header_.tensors.empty()) return {};
    if (header_.data_start > file_.size()) return invalid(where_, "the file ends before its tensors' data");
    const uint64_t data_bytes = file_.size() - header_.data_start;
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
    uint64_t position = 0;
    for (const GgufTensor& tensor : header_.tensors) {
      const std::string where = where_in(where_, tensor.name);
      if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
        return invalid(where, "its {} bytes at offset {} run past the end of the data ({} bytes)",
                       tensor.bytes, tensor.offset, data_bytes);
      }
      if (tensor.offset < position) return invalid(where, "its data overlaps another tensor's");
      position = tensor.offset + tensor.bytes;
    }
    return {};
  }

  std::span<const std::byte> file_;
  const std::string& where_;
  ByteCursor cursor_;
  GgufHeader header_;
  uint64_t key_count_ = 0, tensor_count_ = 0, alignment_ = 32;
  uint64_t strings_ = 0, string_bytes_ = 0;
  std::set<std::string_view> names_;
};

}  // namespace

base::Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, const std::string& where) {
  return HeaderParser(file, where).parse();
}

}  // namespace rafter::format
