#include "format/gguf_value.h"

#include "base/check.h"

namespace rafter::format {
namespace {

template <typename To>
To element(const GgufArray& array, uint64_t i) {
  using tensor::DType;
  using tensor::load_unaligned;
  RAFTER_CHECK(i < array.count, "element {} of {}", i, array.count);
  const std::byte* at = array.data + i * static_cast<uint64_t>(tensor::dtype_bytes(array.type));
  switch (array.type) {
    case DType::boolean:
    case DType::u8:
      return static_cast<To>(load_unaligned<uint8_t>(at));
    case DType::i8:
      return static_cast<To>(load_unaligned<int8_t>(at));
    case DType::u16:
      return static_cast<To>(load_unaligned<uint16_t>(at));
    case DType::i16:
      return static_cast<To>(load_unaligned<int16_t>(at));
    case DType::u32:
      return static_cast<To>(load_unaligned<uint32_t>(at));
    case DType::i32:
      return static_cast<To>(load_unaligned<int32_t>(at));
    case DType::u64:
      return static_cast<To>(load_unaligned<uint64_t>(at));
    case DType::i64:
      return static_cast<To>(load_unaligned<int64_t>(at));
    case DType::f32:
      return static_cast<To>(load_unaligned<float>(at));
    case DType::f64:
      return static_cast<To>(load_unaligned<double>(at));
    default:
      RAFTER_CHECK(false, "no GGUF array holds {}", tensor::dtype_name(array.type));
  }
}

}  // namespace

bool GgufArray::is_integer() const { return type != tensor::DType::f32 && type != tensor::DType::f64; }

int64_t GgufArray::integer(uint64_t i) const {
  RAFTER_CHECK(is_integer(), "an array of {} has no integers", tensor::dtype_name(type));
  return element<int64_t>(*this, i);
}

double GgufArray::number(uint64_t i) const { return element<double>(*this, i); }

}  // namespace rafter::format
