// Checkpoint::matrix and Checkpoint::vector: stored tensors as the model asks for them.
#include <filesystem>

#include <fmt/ranges.h>

#include "format/checkpoint.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool is_float(const std::optional<DType>& dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

base::Status check_shape(const std::string& where, const StoredTensor& tensor,
                         const std::vector<int64_t>& expected) {
  if (tensor.shape == expected) return {};
  base::Error error = invalid(where, "its shape is {} where the model needs {}", shape_text(tensor.shape),
                              shape_text(expected));
  error.hint = "config and weights do not belong together, or the file is damaged";
  return error;
}

// The shape of a tensor that holds `count` matrices; 0: one, without that dimension.
std::vector<int64_t> stacked_shape(int64_t count, int64_t rows, int64_t columns) {
  if (count == 0) return {rows, columns};
  return {count, rows, columns};
}

// Of one of MLX's floating-point modes.
std::optional<NumberFormat> floating_format(const std::string& mode) {
  for (FormatKind kind : {FormatKind::mxfp4, FormatKind::mxfp8, FormatKind::nvfp4}) {
    const NumberFormat format = NumberFormat::floating(kind);
    if (format.name() == mode) return format;
  }
  return std::nullopt;
}

// What other quantisers call their codes.
constexpr std::pair<const char*, const char*> kForeignCodes[] = {
    {".qweight", "GPTQ or AWQ"},
    {".weight_packed", "compressed-tensors"},
    {".weight_scale_inv", "block-wise fp8"},
    {".weight_scale", "fp8"},
};

bool is_affine_width(uint64_t bits) { return bits >= 2 && bits <= 8 && bits != 7; }
bool is_affine_group(uint64_t group) { return group == 32 || group == 64 || group == 128; }

}  // namespace

std::string Checkpoint::where(std::string_view name, const StoredTensor* tensor) const {
  const std::string& file =
      tensor != nullptr && !files_.empty() ? files_[static_cast<size_t>(tensor->file)].path() : path_;
  return where_in(std::filesystem::path(file).filename().string(), name);
}

base::Result<const StoredTensor*> Checkpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return &found->second;
  return base::Error{base::ErrorCode::not_found, "the model needs this tensor but the checkpoint lacks it",
                     where(name), "the download may be incomplete, or the config belongs to another model"};
}

base::Result<tensor::MatrixView> Checkpoint::matrix(const std::string& module, int64_t rows,
                                                    int64_t columns) const {
  return first_matrix(module, 0, rows, columns);
}

base::Result<std::vector<tensor::MatrixView>> Checkpoint::matrices(const std::string& module, int64_t count,
                                                                   int64_t rows, int64_t columns) const {
  constexpr int64_t kMost = int64_t{1} << 16;
  if (count < 1 || count > kMost) {
    return invalid(where(module), "the config makes it {} matrices", count);
  }
  RAFTER_ASSIGN(const tensor::MatrixView first, first_matrix(module, count, rows, columns));
  tensor::MatrixView all = first;
  all.rows = count * rows;
  std::vector<tensor::MatrixView> views;
  for (int64_t i = 0; i < count; ++i) views.push_back(all.row_range(i * rows, rows));
  return views;
}

base::Result<tensor::MatrixView> Checkpoint::first_matrix(const std::string& module, int64_t count,
                                                          int64_t rows, int64_t columns) const {
  constexpr int64_t kLargest = int64_t{1} << 40;
  if (rows < 1 || columns < 1 || rows > kLargest || columns > kLargest) {
    return invalid(where(module), "the config makes it a matrix of {} x {}", rows, columns);
  }
  const bool has_scales = container_ == Container::safetensors && has(module + ".scales");
  const MlxQuantization::Module* entry = quantization_.present ? quantization_.find(module) : nullptr;
  const bool quantized = entry != nullptr ? entry->quantized : has_scales;
  if (has_scales && !quantization_.present) {
    return invalid(where(module), "the file has scales for it but config.json has no quantization block");
  }
  if (has_scales != quantized) {
    return invalid(where(module), "config.json says that it is {}quantised but the file {} scales for it",
                   quantized ? "" : "not ", has_scales ? "has" : "has no");
  }
  if (quantized)
    return quantized_matrix(module, entry != nullptr ? *entry : quantization_.defaults, count, rows, columns);

  for (const auto& [suffix, quantiser] : kForeignCodes) {
    if (container_ == Container::gguf || !has(module + suffix)) continue;
    base::Error error =
        unsupported(where(module + suffix), "weights quantised by {} are not supported", quantiser);
    error.hint = kConversionHint;
    return error;
  }
  const bool is_bare = count > 0 && !has(module + ".weight") && has(module);
  const std::string name = is_bare ? module : module + ".weight";
  RAFTER_ASSIGN(const StoredTensor* const weight, find(name));
  RAFTER_TRY(check_shape(where(name, weight), *weight, stacked_shape(count, rows, columns)));
  if (weight->block_format.has_value()) {
    return tensor::MatrixView{NumberFormat::block(*weight->block_format), rows, columns, weight->data};
  }
  if (is_float(weight->dtype))
    return tensor::MatrixView{NumberFormat::plain(*weight->dtype), rows, columns, weight->data};
  return unsupported(where(name, weight), "weights of type {} are not supported", weight->type_name);
}

base::Result<tensor::MatrixView> Checkpoint::quantized_matrix(const std::string& module,
                                                              const MlxQuantization::Module& entry,
                                                              int64_t count, int64_t rows,
                                                              int64_t columns) const {
  const std::string name = module + ".weight";
  std::optional<NumberFormat> format = floating_format(entry.mode);
  if (!format.has_value() && entry.mode != "affine") {
    return unsupported(where(name), "quantization mode \"{}\" is not supported", printable(entry.mode));
  }
  if (format.has_value() ? entry.bits != format->bits || entry.group != format->group
                         : !is_affine_width(entry.bits) || !is_affine_group(entry.group)) {
    return unsupported(where(name), "{} bits in groups of {} are not supported{}", entry.bits, entry.group,
                       format.has_value() ? " in mode " + entry.mode : "");
  }
  const int64_t bits = static_cast<int64_t>(entry.bits), group = static_cast<int64_t>(entry.group);
  if (columns % group != 0) {
    return invalid(where(name), "rows of {} are not a multiple of the quantization group {}", columns, group);
  }
  if (columns * bits % 32 != 0) {
    return invalid(where(name), "rows of {} codes of {} bits are no whole number of words", columns, bits);
  }
  RAFTER_ASSIGN(const StoredTensor* const weight, find(name));
  if (weight->dtype != DType::u32) {
    return invalid(where(name, weight), "quantised codes of type {} instead of U32", weight->type_name);
  }
  RAFTER_TRY(check_shape(where(fmt::format("{} ({} bits)", name, bits), weight), *weight,
                         stacked_shape(count, rows, columns * bits / 32)));
  RAFTER_ASSIGN(const StoredTensor* const scales, find(module + ".scales"));
  RAFTER_TRY(
      check_shape(where(module + ".scales", scales), *scales, stacked_shape(count, rows, columns / group)));
  if (format.has_value()) {
    if (has(module + ".global_scale")) {
      return unsupported(where(module + ".global_scale"), "a scale of the whole matrix is not supported");
    }
    if (has(module + ".biases")) {
      return invalid(where(module + ".biases"), "mode {} has no biases", entry.mode);
    }
    // MLX writes the bytes as they are; safetensors has names for both types.
    if (scales->dtype != DType::u8 && scales->dtype != format->scale_type) {
      return invalid(where(module + ".scales", scales), "scales of type {} instead of U8 in mode {}",
                     scales->type_name, entry.mode);
    }
    return tensor::MatrixView{*format, rows, columns, weight->data, scales->data};
  }
  RAFTER_ASSIGN(const StoredTensor* const biases, find(module + ".biases"));
  RAFTER_TRY(
      check_shape(where(module + ".biases", biases), *biases, stacked_shape(count, rows, columns / group)));
  for (const auto& [suffix, part] : {std::pair{".scales", scales}, {".biases", biases}}) {
    if (!is_float(part->dtype))
      return unsupported(where(module + suffix, part), "type {} is not supported", part->type_name);
  }
  if (scales->dtype != biases->dtype) {
    return invalid(where(module, scales), "scales are {} but biases {}", scales->type_name,
                   biases->type_name);
  }
  return tensor::MatrixView{
      NumberFormat::affine(static_cast<int>(bits), static_cast<int>(group), *scales->dtype),
      rows,
      columns,
      weight->data,
      scales->data,
      biases->data};
}

base::Result<tensor::VectorView> Checkpoint::vector(const std::string& name, int64_t size) const {
  return floats(name, {size});
}

base::Result<tensor::VectorView> Checkpoint::floats(const std::string& name,
                                                    const std::vector<int64_t>& shape) const {
  RAFTER_ASSIGN(const StoredTensor* const stored, find(name));
  RAFTER_TRY(check_shape(where(name, stored), *stored, shape));
  if (!is_float(stored->dtype)) {
    return unsupported(where(name, stored), "{} of type {} is not supported",
                       shape.size() == 1 ? "a vector" : "a tensor", stored->type_name);
  }
  int64_t size = 1;
  for (int64_t extent : shape) size *= extent;
  return tensor::VectorView{*stored->dtype, size, stored->data};
}

}  // namespace rafter::format
