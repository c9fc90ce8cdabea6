// Checkpoint::without_data: headers that no file holds.
#include <sys/mman.h>

#include "format/checkpoint.h"

namespace rafter::format {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

StoredTensor plain_tensor(DType type, std::vector<int64_t> shape) {
  StoredTensor stored;
  stored.dtype = type;
  stored.type_name = tensor::dtype_name(type);
  stored.bytes = tensor::dtype_bytes(type);
  for (int64_t size : shape) stored.bytes *= size;
  stored.shape = std::move(shape);
  return stored;
}

DType type_of(const NumberFormat& format) {
  return format.kind == FormatKind::f32   ? DType::f32
         : format.kind == FormatKind::f16 ? DType::f16
                                          : DType::bf16;
}

// A declared tensor's parts, by name.
std::vector<std::pair<std::string, StoredTensor>> parts_of(const Checkpoint::Declared& declared) {
  const NumberFormat& format = declared.format;
  const std::string& module = declared.module;
  if (format.kind == FormatKind::affine) {
    std::vector<int64_t> words = declared.shape, groups = declared.shape;
    words.back() = words.back() * format.bits / 32;
    groups.back() /= format.group;
    return {{module + ".weight", plain_tensor(DType::u32, words)},
            {module + ".scales", plain_tensor(format.scale_type, groups)},
            {module + ".biases", plain_tensor(format.scale_type, groups)}};
  }
  const std::string name = declared.is_bare ? module : module + ".weight";
  if (format.kind == FormatKind::f32 || format.kind == FormatKind::f16 || format.kind == FormatKind::bf16)
    return {{name, plain_tensor(type_of(format), declared.shape)}};
  StoredTensor stored;
  stored.block_format = format.kind;
  stored.type_name = "block format";
  stored.shape = declared.shape;
  stored.bytes = format.row_bytes(declared.shape.back());
  for (size_t i = 0; i + 1 < declared.shape.size(); ++i) stored.bytes *= declared.shape[i];
  return {{name, std::move(stored)}};
}

}  // namespace

base::Result<Checkpoint> Checkpoint::without_data(std::string name, std::string config_json,
                                                  const std::vector<Declared>& tensors) {
  Checkpoint checkpoint;
  checkpoint.path_ = std::move(name);
  checkpoint.config_json_ = std::move(config_json);
  RAFTER_ASSIGN(checkpoint.quantization_,
                parse_mlx_quantization(checkpoint.config_json_, checkpoint.path_ + ": config"));
  int64_t bytes = 0;
  for (const Declared& declared : tensors) {
    for (auto& [part, stored] : parts_of(declared)) {
      bytes += stored.bytes;
      checkpoint.tensors_.emplace(part, std::move(stored));
    }
  }
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* const zeros = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) {
    return base::Error{base::ErrorCode::out_of_memory,
                       fmt::format("no {} bytes of address space for the shape's weights", bytes),
                       checkpoint.path_, "raise the limit of virtual memory (ulimit -v)"};
  }
  checkpoint.zeros_ = {static_cast<const std::byte*>(zeros),
                       [size](const std::byte* data) { munmap(const_cast<std::byte*>(data), size); }};
  const std::byte* next = checkpoint.zeros_.get();
  for (auto& [part, stored] : checkpoint.tensors_) {
    stored.data = next;
    next += stored.bytes;
  }
  return checkpoint;
}

}  // namespace rafter::format
