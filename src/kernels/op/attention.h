// Softmax attention of each row over the positions it may see:
//   out[b, h, :] = Σ_p softmax_p(scale · q[b, h, :]·K[p, h / r, :]) · V[p, h / r, :],    r = H / KV
// with a soft cap c, scores s = scale · q·K become c · tanh(s / c) first.
// p runs over [max(visible_from[b], positions[b] − window + 1), visible_to[b]); window 0 means no window.
//
// Order contract: the absolute positions are cut into splits of kSplitPositions; each split yields (max, sum,
// weighted values) with one fixed order inside, and splits are merged in ascending order. So a row's result
// depends on the positions it sees only: not on the other rows, the workers, or where a block lies.
#pragma once

#include "kernels/op/kv_cache.h"
#include "kernels/op/step.h"

namespace rafter::kernels {

inline constexpr int64_t kSplitPositions = 256;

// Over the block tables.
struct AttentionArgs {
  const StepInput* input = nullptr;
  int32_t heads = 0;   // H, a multiple of cache.kv_heads
  int32_t window = 0;  // positions, the row itself included; 0: none
  float scale = 0;
  float softcap = 0;  // 0: none
  KvLayer cache;
  const float* q = nullptr;  // [B, H · HD]
  float* out = nullptr;      // [B, H · HD]
};

// Without a cache: keys and values are those of the step's own rows (training, one-shot embedding). A row
// sees the rows of its sequence whose positions it may see.
struct RowAttentionArgs {
  const StepInput* input = nullptr;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t window = 0;
  float scale = 0;
  float softcap = 0;         // 0: none
  const float* q = nullptr;  // [B, H · HD]
  const float* k = nullptr;  // [B, KV · HD]
  const float* v = nullptr;  // [B, KV · HD]
  float* out = nullptr;      // [B, H · HD]
};

// `visible` is the number of (row, position) pairs attended to, and `positions` that of distinct cache
// positions read.
inline Cost cost(const AttentionArgs& a, int64_t rows, int64_t visible, int64_t positions) {
  const int64_t head_dim = a.cache.head_dim;
  return {0, positions * 2 * a.cache.kv_heads * a.cache.position_bytes(), rows * a.heads * head_dim * 8,
          visible * a.heads * head_dim * 4};
}
inline Cost cost(const RowAttentionArgs& a, int64_t rows, int64_t visible) {
  return {0, 0, rows * (2 * a.heads + 2 * a.kv_heads) * a.head_dim * 4, visible * a.heads * a.head_dim * 4};
}

}  // namespace rafter::kernels
