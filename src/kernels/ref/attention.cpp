#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/bodies.h"
#include "kernels/ref/kv_codes.h"

namespace rafter::kernels::reference {
namespace {

// First position that row b sees under a layer's window (0: none).
int64_t first_visible(const StepInput& input, int64_t b, int64_t window) {
  const int64_t from = input.visible_from[b];
  return window > 0 ? std::max(from, input.positions[b] - window + 1) : from;
}

struct Heads {
  int64_t heads, kv_heads, head_dim;
};

// One row over `count` positions; key(i, h) and value(i, h) give pointers to (or copies of) head_dim fp32
// values of kv head h. No position: zeros.
template <typename Key, typename Value>
void attend_row(const Heads& shape, double scale, double softcap, int64_t count, const float* q,
                const Key& key, const Value& value, float* out) {
  std::vector<double> weights(count), sums(shape.head_dim);
  for (int64_t h = 0; h < shape.heads; ++h) {
    const int64_t kv_head = h / (shape.heads / shape.kv_heads);
    const float* query = q + h * shape.head_dim;
    double largest = -INFINITY, total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float* k = key(i, kv_head);
      double dot = 0;
      for (int64_t d = 0; d < shape.head_dim; ++d) dot += double{query[d]} * k[d];
      weights[i] = softcap > 0 ? softcap * std::tanh(scale * dot / softcap) : scale * dot;
      largest = std::max(largest, weights[i]);
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t i = 0; i < count; ++i) {
      const double weight = std::exp(weights[i] - largest);
      total += weight;
      const float* v = value(i, kv_head);
      for (int64_t d = 0; d < shape.head_dim; ++d) sums[d] += weight * v[d];
    }
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      out[h * shape.head_dim + d] = count == 0 ? 0.0f : static_cast<float>(sums[d] / total);
    }
  }
}

// A block's keys of one head, from codes: the last ones that were asked for.
class BlockKeys {
 public:
  explicit BlockKeys(const KvLayer& cache) : cache_(cache), keys_(kBlockPositions * cache.head_dim) {}

  const float* key(const std::byte* block, int64_t kv_head, int64_t slot) {
    if (block != block_ || kv_head != kv_head_) {
      block_ = block, kv_head_ = kv_head;
      dequantize_keys(cache_, block, kv_head, kBlockPositions, keys_.data());
    }
    return keys_.data() + slot * cache_.head_dim;
  }

 private:
  const KvLayer& cache_;
  std::vector<float> keys_;
  const std::byte* block_ = nullptr;
  int64_t kv_head_ = -1;
};

// One cached vector, expanded to fp32. `side`: the keys or the values of its block.
void load_cached(const KvLayer& cache, const std::byte* side, int64_t kv_head, int64_t slot, float* out) {
  if (cache.has_codes()) return dequantize_value(cache, side, kv_head, slot, out);
  const std::byte* address = side + cache.offset(kv_head, slot);
  for (int64_t d = 0; d < cache.head_dim; ++d) {
    out[d] = cache.type == tensor::DType::f32
                 ? tensor::load_unaligned<float>(address + 4 * d)
                 : tensor::bf16_to_f32(tensor::load_unaligned<uint16_t>(address + 2 * d));
  }
}

}  // namespace

void attention(const AttentionArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const StepInput& input = *args.input;
  const KvLayer& cache = args.cache;
  const Heads shape{args.heads, cache.kv_heads, cache.head_dim};
  std::vector<float> expanded(cache.head_dim);
  BlockKeys keys(cache);
  for (int64_t b = 0; b < input.rows; ++b) {
    const int64_t from = first_visible(input, b, args.window);
    const int32_t* table = block_table(input, cache, b);
    const auto read = [&](const std::byte* plane, int64_t i, int64_t kv_head) -> const float* {
      const int64_t position = from + i;
      const int64_t block = table[position / kBlockPositions] * cache.block_stride;
      if (cache.has_codes() && plane == cache.keys)
        return keys.key(plane + block, kv_head, position % kBlockPositions);
      load_cached(cache, plane + block, kv_head, position % kBlockPositions, expanded.data());
      return expanded.data();
    };
    const int64_t row_offset = b * shape.heads * shape.head_dim;
    attend_row(
        shape, args.scale, args.softcap, std::max<int64_t>(0, input.visible_to[b] - from),
        args.q + row_offset, [&](int64_t i, int64_t h) { return read(cache.keys, i, h); },
        [&](int64_t i, int64_t h) { return read(cache.values, i, h); }, args.out + row_offset);
  }
}

void row_attention(const RowAttentionArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const StepInput& input = *args.input;
  const Heads shape{args.heads, args.kv_heads, args.head_dim};
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  std::vector<int64_t> seen;  // rows that row b sees
  for (int64_t b = 0; b < input.rows; ++b) {
    seen.clear();
    for (int64_t other = 0; other < input.rows; ++other) {
      const int64_t position = input.positions[other];
      if (input.sequences[other] == input.sequences[b] && position >= first_visible(input, b, args.window) &&
          position < input.visible_to[b]) {
        seen.push_back(other);
      }
    }
    const auto read = [&](const float* plane, int64_t i, int64_t kv_head) {
      return plane + seen[i] * kv_width + kv_head * shape.head_dim;
    };
    const int64_t row_offset = b * shape.heads * shape.head_dim;
    attend_row(
        shape, args.scale, args.softcap, static_cast<int64_t>(seen.size()), args.q + row_offset,
        [&](int64_t i, int64_t h) { return read(args.k, i, h); },
        [&](int64_t i, int64_t h) { return read(args.v, i, h); }, args.out + row_offset);
  }
}

}  // namespace rafter::kernels::reference
