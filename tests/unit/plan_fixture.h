// Plans without a checkpoint: the ops of a llama-like layer over weights that have shapes and no data.
#pragma once

#include <random>

#include <fmt/format.h>

#include "plan/emitter.h"
#include "plan/fuse.h"

namespace rafter::testing {

inline plan::Linear shape_only(int64_t rows, int64_t columns) {
  static const std::byte kNothing{};
  plan::Linear linear;
  linear.weight.format = tensor::NumberFormat::plain(tensor::DType::bf16);
  linear.weight.rows = rows;
  linear.weight.columns = columns;
  linear.weight.data = &kNothing;
  return linear;
}

inline plan::Plan emit_llama_like(int64_t capacity, int layers, bool qk_norm,
                                  std::set<std::string, std::less<>> taps) {
  using plan::Value;
  static const float kWeight[512] = {};
  constexpr int64_t kWidth = 64, kFfn = 160, kVocabulary = 320;
  const plan::AttentionShape shape{4, 2, 32, 0, 0.17f};
  plan::Rope rope;
  rope.head_dim = rope.rotated_dims = 32;
  rope.frequencies = kWeight;

  plan::EmitOptions options;
  options.capacity = capacity;
  options.taps = std::move(taps);
  plan::Emitter e(options);
  Value x = e.embed("embed_tokens", shape_only(kVocabulary, kWidth).weight);
  const Value angles = e.rope_angles("rope_angles", rope);
  for (int l = 0; l < layers; ++l) {
    e.set_layer(l);
    const Value a = e.rms_norm("attn_norm", x, kWeight, 1e-5f);
    Value q = e.matmul("q_proj", a, shape_only(128, kWidth));
    Value k = e.matmul("k_proj", a, shape_only(64, kWidth));
    const Value v = e.matmul("v_proj", a, shape_only(64, kWidth));
    if (qk_norm) {
      q = e.rms_norm_per_head("q_norm", q, 4, kWeight, 1e-5f);
      k = e.rms_norm_per_head("k_norm", k, 2, kWeight, 1e-5f);
    }
    q = e.rope("q_rope", q, 4, rope, angles);
    k = e.rope("k_rope", k, 2, rope, angles);
    const plan::KeysValues cache = e.append_keys_values("kv_append", k, v, shape, l);
    const Value attended = e.attention("attention", q, cache, shape);
    const Value h = e.add("attn_residual", x, e.matmul("o_proj", attended, shape_only(kWidth, 128)));
    const Value m = e.rms_norm("ffn_norm", h, kWeight, 1e-5f);
    const Value gate = e.matmul("ffn_gate", m, shape_only(kFfn, kWidth));
    const Value up = e.matmul("ffn_up", m, shape_only(kFfn, kWidth));
    const Value gated = e.swiglu("swiglu", gate, up);
    x = e.add("ffn_residual", h, e.matmul("ffn_down", gated, shape_only(kWidth, kFfn)));
    e.tap(fmt::format("layer.{}.attn_norm", l), a);
    e.tap(fmt::format("layer.{}.hidden", l), x);
  }
  e.set_layer(-1);
  const Value wanted = e.select_wanted_rows("select_wanted", x);
  e.set_logits(
      e.matmul("lm_head", e.rms_norm("final_norm", wanted, kWeight, 1e-5f), shape_only(kVocabulary, kWidth)));
  return std::move(e).take();
}

}  // namespace rafter::testing
