// Checkpoint's getters for GGUF metadata.
#include "format/checkpoint.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

// Long enough for any list of numbers that a model needs (one per token of a vocabulary).
constexpr uint64_t kLongestList = 16'000'000;

std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value.value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value.value)) {
    if (*number <= INT64_MAX) return static_cast<int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> as_number(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value.value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value.value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value.value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<bool> as_bool(const GgufValue& value) {
  const auto* flag = std::get_if<bool>(&value.value);
  return flag != nullptr ? std::optional(*flag) : std::nullopt;
}

std::optional<std::string> as_string(const GgufValue& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  return text != nullptr ? std::optional(*text) : std::nullopt;
}

std::optional<std::vector<int64_t>> as_integers(const GgufValue& value) {
  if (const auto number = as_integer(value)) return std::vector{*number};
  if (const auto flag = as_bool(value)) return std::vector<int64_t>{*flag};
  const auto* array = std::get_if<GgufArray>(&value.value);
  if (array == nullptr || !array->is_integer() || array->count > kLongestList) return std::nullopt;
  std::vector<int64_t> numbers(array->count);
  for (uint64_t i = 0; i < array->count; ++i) {
    numbers[i] = array->integer(i);
    if (array->type == tensor::DType::u64 && numbers[i] < 0) return std::nullopt;
  }
  return numbers;
}

std::optional<std::vector<double>> as_numbers(const GgufValue& value) {
  if (const auto number = as_number(value)) return std::vector{*number};
  const auto* array = std::get_if<GgufArray>(&value.value);
  if (array == nullptr || array->count > kLongestList) return std::nullopt;
  std::vector<double> numbers(array->count);
  for (uint64_t i = 0; i < array->count; ++i) numbers[i] = array->number(i);
  return numbers;
}

std::optional<const std::vector<std::string>*> as_strings(const GgufValue& value) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value.value);
  return texts != nullptr ? std::optional(texts) : std::nullopt;
}

template <typename T>
base::Result<T> expect(base::Result<const GgufValue*> value, const std::string& where, const char* kind,
                       std::optional<T> (*convert)(const GgufValue&)) {
  if (!value.ok()) return value.error();
  std::optional<T> converted = convert(*value.value());
  if (!converted.has_value()) return invalid(where, "the metadata value is not {}", kind);
  return *std::move(converted);
}

}  // namespace

base::Result<const GgufValue*> Checkpoint::gguf_value(std::string_view key) const {
  const auto found = gguf_metadata_.find(key);
  if (found != gguf_metadata_.end()) return &found->second;
  return base::Error{base::ErrorCode::not_found, "the file lacks this metadata key", where(key), ""};
}

base::Result<std::string> Checkpoint::gguf_string(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a string", as_string);
}

base::Result<int64_t> Checkpoint::gguf_integer(std::string_view key) const {
  return expect(gguf_value(key), where(key), "an integer of 63 bits", as_integer);
}

base::Result<double> Checkpoint::gguf_number(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a number", as_number);
}

base::Result<bool> Checkpoint::gguf_bool(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a boolean", as_bool);
}

base::Result<std::vector<int64_t>> Checkpoint::gguf_integers(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a list of integers", as_integers);
}

base::Result<std::vector<double>> Checkpoint::gguf_numbers(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a list of numbers", as_numbers);
}

base::Result<const std::vector<std::string>*> Checkpoint::gguf_strings(std::string_view key) const {
  return expect(gguf_value(key), where(key), "a list of strings", as_strings);
}

base::Result<std::string> Checkpoint::gguf_string(std::string_view key, std::string fallback) const {
  return gguf_has(key) ? gguf_string(key) : fallback;
}

base::Result<int64_t> Checkpoint::gguf_integer(std::string_view key, int64_t fallback) const {
  return gguf_has(key) ? gguf_integer(key) : fallback;
}

base::Result<double> Checkpoint::gguf_number(std::string_view key, double fallback) const {
  return gguf_has(key) ? gguf_number(key) : fallback;
}

base::Result<bool> Checkpoint::gguf_bool(std::string_view key, bool fallback) const {
  return gguf_has(key) ? gguf_bool(key) : fallback;
}

}  // namespace rafter::format
