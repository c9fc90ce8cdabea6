// Rotary position embedding. The angles of a step are made once and shared by all layers:
//   rope_angles   cos and sin of φ = position_scale · position · frequency[i], φ in fp32, per row
//   rope          x'_a = x_a cos φ − x_b sin φ,  x'_b = x_a sin φ + x_b cos φ, per head
// with (a, b) = (i, i + R/2) for the half layout and (2i, 2i + 1) for the adjacent one, i < R/2, R = rotated
// dims. Dims from R to HD pass unchanged. `magnitude` multiplies the rotated dims first (yarn, longrope).
#pragma once

#include "kernels/op/kv_cache.h"
#include "kernels/op/step.h"

namespace rafter::kernels {

enum class RopeLayout : uint8_t { half, adjacent };

struct RopeAnglesArgs {
  const StepInput* input = nullptr;
  int32_t rotated_dims = 0;            // R, even
  float position_scale = 1.0f;         // linear scaling: 1 / factor
  const float* frequencies = nullptr;  // [R/2]
  float* out = nullptr;                // [B, R]: R/2 cosines, then R/2 sines
};

struct RopeArgs {
  const int32_t* rows = nullptr;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotated_dims = 0;
  RopeLayout layout = RopeLayout::half;
  float magnitude = 1.0f;
  const float* angles = nullptr;  // [B, R] from rope_angles
  const float* x = nullptr;       // [B, heads · HD]
  float* out = nullptr;           // the same shape; may be x
};

// Fused: out_q = rope(q); append(rope(k), v). Equals the three ops bit for bit.
struct RopeAppendArgs {
  const StepInput* input = nullptr;
  RopeArgs q;  // q.heads = H
  RopeArgs k;  // k.heads = KV; k.out is unused: the rotated key goes to the cache
  const float* v = nullptr;
  KvLayer cache;
};

inline Cost cost(const RopeAnglesArgs& a, int64_t rows) {
  return {0, 0, rows * a.rotated_dims * 4, rows * a.rotated_dims * 2};
}
inline Cost cost(const RopeArgs& a, int64_t rows) {
  const int64_t elements = rows * a.heads * a.head_dim;
  return {0, 0, elements * 8, elements * 3};
}
inline Cost cost(const RopeAppendArgs& a, int64_t rows) {
  const Cost append = cost(KvAppendArgs{a.input, a.cache, nullptr, nullptr}, rows);
  const int64_t elements = rows * (a.q.heads * 2 + a.k.heads * 2) * a.q.head_dim;
  return {0, append.cache_bytes, elements * 4, elements * 3};
}

}  // namespace rafter::kernels
