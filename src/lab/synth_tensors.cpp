#include "lab/synth_tensors.h"

#include "lab/synth_names.h"

namespace rafter::lab {
namespace {

using base::Error;
using base::ErrorCode;
using format::Container;
using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

constexpr int64_t kDefaultGroup = 64;

std::vector<SynthFormat> make_formats() {
  const NumberFormat bf16 = NumberFormat::plain(DType::bf16);
  const NumberFormat affine4 = NumberFormat::affine(4, kDefaultGroup, DType::bf16);
  const NumberFormat affine8 = NumberFormat::affine(8, kDefaultGroup, DType::bf16);
  const NumberFormat q4_0 = NumberFormat::block(FormatKind::q4_0);
  const NumberFormat q8_0 = NumberFormat::block(FormatKind::q8_0);
  const NumberFormat q4_k = NumberFormat::block(FormatKind::q4_k);
  const NumberFormat q5_k = NumberFormat::block(FormatKind::q5_k);
  const NumberFormat q6_k = NumberFormat::block(FormatKind::q6_k);
  return {
      {"bf16", Container::safetensors, bf16, bf16, bf16},
      {"mlx4", Container::safetensors, affine4, affine4, affine4},
      {"mlx8", Container::safetensors, affine8, affine8, affine8},
      {"mlx-mixed", Container::safetensors, affine4, affine8, affine8},
      // Uniform, as `--pure` quantises: the usual q4_0 file has a q6_k head, which mlx4 could not be compared
      // with.
      {"q4_0", Container::gguf, q4_0, q4_0, q4_0},
      {"q8_0", Container::gguf, q8_0, q8_0, q8_0},
      {"q4_k", Container::gguf, q4_k, q4_k, q4_k},
      {"q5_k", Container::gguf, q5_k, q5_k, q5_k},
      {"q6_k", Container::gguf, q6_k, q6_k, q6_k},
  };
}

void list_dense_layer(const SynthShape& shape, int64_t l, SynthTensorList& list) {
  const std::string at = fmt::format("model.layers.{}.", l), block = fmt::format("blk.{}.", l);
  const NumberFormat format = list.of_layer(l);
  const int64_t width = shape.width, ffn = shape.ffn_width;
  const int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  list.vector({at + "input_layernorm", block + "attn_norm"}, width);
  list.matrix({at + "self_attn.q_proj", block + "attn_q"}, q, width, format);
  list.matrix({at + "self_attn.k_proj", block + "attn_k"}, kv, width, format);
  list.matrix({at + "self_attn.v_proj", block + "attn_v"}, kv, width, format);
  if (shape.qk_norm) {
    list.vector({at + "self_attn.q_norm", block + "attn_q_norm"}, shape.head_dim);
    list.vector({at + "self_attn.k_norm", block + "attn_k_norm"}, shape.head_dim);
  }
  list.matrix({at + "self_attn.o_proj", block + "attn_output"}, width, q, format);
  list.vector({at + "post_attention_layernorm", block + "ffn_norm"}, width);
  list.matrix({at + "mlp.gate_proj", block + "ffn_gate"}, ffn, width, format);
  list.matrix({at + "mlp.up_proj", block + "ffn_up"}, ffn, width, format);
  list.matrix({at + "mlp.down_proj", block + "ffn_down"}, width, ffn, format);
}

void list_dense_tensors(const SynthShape& shape, SynthTensorList& list) {
  const NumberFormat heads = list.format().heads;
  SynthTensor& table =
      list.matrix({"model.embed_tokens", "token_embd"}, shape.vocabulary, shape.width, heads);
  table.streamed = shape.tied_head;  // else a step reads one row of it
  for (int64_t l = 0; l < shape.layers; ++l) list_dense_layer(shape, l, list);
  list.vector({"model.norm", "output_norm"}, shape.width);
  if (!shape.tied_head) list.matrix({"lm_head", "output"}, shape.vocabulary, shape.width, heads);
  if (list.form() == SynthForm::gguf && shape.rope_scaling)
    list.vector({"", "rope_freqs"}, shape.head_dim / 2, SynthContent::divisors);
}

}  // namespace

SynthForm form_of(const SynthFormat& format) {
  if (format.container == Container::gguf) return SynthForm::gguf;
  return format.inner.kind == FormatKind::bf16 ? SynthForm::raw : SynthForm::mlx;
}

SynthTensorList::SynthTensorList(const SynthShape& shape, const SynthFormat& format)
    : shape_(shape), format_(format), form_(form_of(format)) {}

NumberFormat SynthTensorList::of_layer(int64_t l) const {
  return l == 0 || l == shape_.layers - 1 ? format_.outer : format_.inner;
}

SynthTensor& SynthTensorList::add(const Name& name, SynthTensor tensor) {
  tensor.module = form_ == SynthForm::gguf ? name.block : name.folder;
  return list_.emplace_back(std::move(tensor));
}

SynthTensor& SynthTensorList::matrix(const Name& name, int64_t rows, int64_t columns, NumberFormat format) {
  const int64_t block = format.block_columns();
  if (block == 256 && columns % block != 0) format = NumberFormat::block(FormatKind::q8_0);
  SynthTensor tensor;
  tensor.shape = {rows, columns};
  tensor.format = format;
  tensor.streamed = true;
  return add(name, std::move(tensor));
}

SynthTensor& SynthTensorList::kept_matrix(const Name& name, int64_t rows, int64_t columns,
                                          NumberFormat format, DType kept) {
  const bool is_block = format.kind != FormatKind::bf16 && format.kind != FormatKind::affine;
  return matrix(name, rows, columns, is_block ? NumberFormat::plain(kept) : format);
}

SynthTensor& SynthTensorList::stack(const Name& name, const SynthExperts& experts, int64_t rows,
                                    int64_t columns, NumberFormat format) {
  SynthTensor& tensor = matrix(name, rows, columns, format);
  tensor.shape.insert(tensor.shape.begin(), experts.count);
  tensor.of = experts.count;
  tensor.read = experts.chosen;
  return tensor;
}

SynthTensor& SynthTensorList::vector(const Name& name, int64_t size, SynthContent content) {
  SynthTensor tensor;
  tensor.content = content;
  tensor.shape = {size};
  tensor.format = NumberFormat::plain(form_ == SynthForm::gguf ? DType::f32 : DType::bf16);
  return add(name, std::move(tensor));
}

std::span<const SynthFormat> synth_formats() {
  static const std::vector<SynthFormat> formats = make_formats();
  return formats;
}

base::Result<SynthFormat> find_synth_format(const std::string& name, int64_t group) {
  RAFTER_ASSIGN(const SynthFormat* found, find_by_name(synth_formats(), name, "format"));
  SynthFormat format = *found;
  if (group == kDefaultGroup) return format;
  if (format.inner.kind != FormatKind::affine) {
    return Error{ErrorCode::invalid_argument, fmt::format("format {} has no groups to choose", name),
                 "--group", "leave --group out, or use an MLX format"};
  }
  if (group != 32 && group != 128) {
    return Error{ErrorCode::invalid_argument, fmt::format("a group of {} columns is not possible", group),
                 "--group", "use 32, 64 or 128"};
  }
  for (NumberFormat* part : {&format.inner, &format.outer, &format.heads})
    part->group = static_cast<uint16_t>(group);
  return format;
}

base::Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& shape, const SynthFormat& format) {
  SynthTensorList list(shape, format);
  if (shape.gemma4) {
    list_gemma4_tensors(shape, list);
  } else if (shape.qwen3_5) {
    list_qwen3_5_tensors(shape, list);
  } else {
    list_dense_tensors(shape, list);
  }
  std::vector<SynthTensor> tensors = list.take();
  for (const SynthTensor& tensor : tensors) {
    if (tensor.columns() % tensor.format.block_columns() == 0) continue;
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has rows of {} columns, no whole number of blocks of {}", tensor.module,
                             tensor.columns(), tensor.format.block_columns()),
                 fmt::format("synth: {} in {}", shape.name, tensor.format.name()), ""};
  }
  return tensors;
}

std::vector<SynthPart> safetensors_parts(const SynthTensor& tensor) {
  const NumberFormat& format = tensor.format;
  if (format.kind != FormatKind::affine) return {{tensor.name(), DType::bf16, tensor.shape}};
  std::vector<int64_t> words = tensor.shape, groups = tensor.shape;
  words.back() = words.back() * format.bits / 32;
  groups.back() /= format.group;
  return {{tensor.module + ".weight", DType::u32, words},
          {tensor.module + ".scales", format.scale_type, groups},
          {tensor.module + ".biases", format.scale_type, groups}};
}

}  // namespace rafter::lab
