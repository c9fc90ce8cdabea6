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

// The tensors of a dense model under both containers' names.
class TensorList {
 public:
  TensorList(const SynthShape& shape, const SynthFormat& format) : shape_(shape), format_(format) {}

  std::vector<SynthTensor> run() {
    matrix("model.embed_tokens", "token_embd", shape_.vocabulary, shape_.width, format_.heads);
    list_.back().streamed = shape_.tied_head;  // else a step reads one row of it
    for (int64_t l = 0; l < shape_.layers; ++l) add_layer(l);
    norm("model.norm", "output_norm", shape_.width);
    if (!shape_.tied_head) matrix("lm_head", "output", shape_.vocabulary, shape_.width, format_.heads);
    if (gguf() && shape_.rope_scaling) {
      list_.push_back({"rope_freqs", SynthContent::rope_divisors, shape_.head_dim / 2, 0,
                       NumberFormat::plain(DType::f32), false});
    }
    return std::move(list_);
  }

 private:
  bool gguf() const { return format_.container == Container::gguf; }

  void add_layer(int64_t l) {
    const std::string hf = fmt::format("model.layers.{}.", l), block = fmt::format("blk.{}.", l);
    const bool outer = l == 0 || l == shape_.layers - 1;
    const NumberFormat format = outer ? format_.outer : format_.inner;
    const int64_t width = shape_.width, ffn = shape_.ffn_width;
    const int64_t q = shape_.heads * shape_.head_dim, kv = shape_.kv_heads * shape_.head_dim;
    norm(hf + "input_layernorm", block + "attn_norm", width);
    matrix(hf + "self_attn.q_proj", block + "attn_q", q, width, format);
    matrix(hf + "self_attn.k_proj", block + "attn_k", kv, width, format);
    matrix(hf + "self_attn.v_proj", block + "attn_v", kv, width, format);
    if (shape_.qk_norm) {
      norm(hf + "self_attn.q_norm", block + "attn_q_norm", shape_.head_dim);
      norm(hf + "self_attn.k_norm", block + "attn_k_norm", shape_.head_dim);
    }
    matrix(hf + "self_attn.o_proj", block + "attn_output", width, q, format);
    norm(hf + "post_attention_layernorm", block + "ffn_norm", width);
    matrix(hf + "mlp.gate_proj", block + "ffn_gate", ffn, width, format);
    matrix(hf + "mlp.up_proj", block + "ffn_up", ffn, width, format);
    matrix(hf + "mlp.down_proj", block + "ffn_down", width, ffn, format);
  }

  void matrix(const std::string& hf, const std::string& block, int64_t rows, int64_t columns,
              NumberFormat format) {
    list_.push_back({gguf() ? block : hf, SynthContent::matrix, rows, columns, format, true});
  }
  void norm(const std::string& hf, const std::string& block, int64_t size) {
    const NumberFormat format = NumberFormat::plain(gguf() ? DType::f32 : DType::bf16);
    list_.push_back({gguf() ? block : hf, SynthContent::norm, size, 0, format, false});
  }

  const SynthShape& shape_;
  const SynthFormat& format_;
  std::vector<SynthTensor> list_;
};

}  // namespace

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
  std::vector<SynthTensor> tensors = TensorList(shape, format).run();
  for (const SynthTensor& tensor : tensors) {
    if (tensor.columns % tensor.format.block_columns() == 0) continue;
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has rows of {} columns, no whole number of blocks of {}", tensor.module,
                             tensor.columns, tensor.format.block_columns()),
                 fmt::format("synth: {} in {}", shape.name, tensor.format.name()), ""};
  }
  return tensors;
}

std::vector<SynthPart> safetensors_parts(const SynthTensor& tensor) {
  const std::string& module = tensor.module;
  if (tensor.columns == 0) return {{module + ".weight", DType::bf16, {tensor.rows}}};
  const NumberFormat& format = tensor.format;
  if (format.kind != FormatKind::affine)
    return {{module + ".weight", DType::bf16, {tensor.rows, tensor.columns}}};
  const std::vector<int64_t> groups = {tensor.rows, tensor.columns / format.group};
  return {{module + ".weight", DType::u32, {tensor.rows, tensor.columns * format.bits / 32}},
          {module + ".scales", format.scale_type, groups},
          {module + ".biases", format.scale_type, groups}};
}

}  // namespace rafter::lab
