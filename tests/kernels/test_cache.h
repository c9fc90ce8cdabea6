// A KV cache for tests: random keys and values of a few sequences in blocks of scrambled order, each sequence
// as long as the test says. Everything beyond that, and between the blocks, is NaN (codes: their scales are).
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/op/kv_cache.h"
#include "kernels/ref/kv_codes.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_data.h"

namespace rafter::kernels::testing {

// How a cache stores its elements. Groups of `group`, or of the whole head where that does not divide it.
struct CacheFormat {
  tensor::DType type = tensor::DType::bf16;
  int32_t bits = 0, group = 64;

  KvCodes codes(int32_t head_dim) const {
    return bits == 0 ? KvCodes{} : KvCodes{bits, head_dim % group == 0 ? group : head_dim};
  }
  std::string name() const {
    return bits == 0 ? tensor::dtype_name(type) : fmt::format("{} bits in groups of {}", bits, group);
  }
};
inline constexpr CacheFormat kCacheFormats[] = {{tensor::DType::bf16},        {tensor::DType::f32},
                                                {tensor::DType::bf16, 8},     {tensor::DType::bf16, 4},
                                                {tensor::DType::bf16, 8, 32}, {tensor::DType::bf16, 4, 8}};

class TestCache {
 public:
  TestCache(CacheFormat format, int32_t kv_heads, int32_t head_dim, std::vector<int> capacities)
      : capacities_(std::move(capacities)), lengths_(capacities_.size(), 0) {
    int most = 0, blocks = 0;
    for (int capacity : capacities_) {
      const int count = (capacity + kBlockPositions - 1) / kBlockPositions;
      most = std::max(most, count);
      blocks += count;
    }
    stride_ = most;
    std::vector<int32_t> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(11));
    tables_.assign(capacities_.size() * stride_, kNoBlock);
    size_t next = 0;
    for (size_t s = 0; s < capacities_.size(); ++s) {
      for (int i = 0; i * kBlockPositions < capacities_[s]; ++i) tables_[s * stride_ + i] = ids[next++];
    }
    layer_.type = format.type;
    layer_.kv_heads = kv_heads;
    layer_.head_dim = head_dim;
    layer_.codes = format.codes(head_dim);
    layer_.block_stride = 3 * layer_.side_bytes();  // another layer's keys in between
    bytes_ = std::make_unique<GuardedBuffer<std::byte>>(std::max(1, blocks) * layer_.block_stride);
    layer_.keys = bytes_->data();
    layer_.values = layer_.keys + layer_.side_bytes();
    keys_.resize(capacities_.size());
    values_.resize(capacities_.size());
    for (size_t s = 0; s < capacities_.size(); ++s) {
      keys_[s] = rounded(random_values(capacities_[s] * row_width(), 100 + s));
      values_[s] = rounded(random_values(capacities_[s] * row_width(), 200 + s));
    }
  }

  const KvLayer& layer() const { return layer_; }
  int capacity(int sequence) const { return capacities_[sequence]; }
  void set_tables(StepRows* step) const {
    step->block_tables = tables_;
    step->block_table_stride = stride_;
  }

  // Sequences only grow.
  void set_length(int sequence, int length) {
    for (int p = lengths_[sequence]; p < length; ++p) {
      for (int32_t h = 0; h < layer_.kv_heads; ++h) {
        const int64_t block = tables_[sequence * stride_ + p / kBlockPositions] * layer_.block_stride;
        put(layer_.keys + block, true, h, p % kBlockPositions, row(keys_[sequence], p, h));
        put(layer_.values + block, false, h, p % kBlockPositions, row(values_[sequence], p, h));
      }
      const bool ends_block = p % kBlockPositions == kBlockPositions - 1 || p == length - 1;
      if (layer_.has_codes() && ends_block)
        read_keys(sequence, std::max(lengths_[sequence], p - p % static_cast<int>(kBlockPositions)), p);
    }
    lengths_[sequence] = std::max(lengths_[sequence], length);
  }

  // Takes the block of a position away, as a sliding window's cache does.
  void release_block(int sequence, int position) {
    tables_[sequence * stride_ + position / kBlockPositions] = kNoBlock;
  }

  // Appends one position's key and value, all heads, as fp32.
  void copy_position(int sequence, int position, std::vector<float>* keys, std::vector<float>* values) const {
    const float* k = row(keys_[sequence], position, 0);
    const float* v = row(values_[sequence], position, 0);
    keys->insert(keys->end(), k, k + row_width());
    values->insert(values->end(), v, v + row_width());
  }

  double longest_key() const {
    double longest = 0;
    for (const std::vector<float>& keys : keys_) {
      for (size_t i = 0; i < keys.size(); i += layer_.head_dim) {
        longest = std::max(longest, l2_norm({keys.data() + i, static_cast<size_t>(layer_.head_dim)}));
      }
    }
    return longest;
  }
  double largest_value() const {
    double largest = 0;
    for (const std::vector<float>& values : values_) {
      for (float value : values) largest = std::max(largest, std::abs(double{value}));
    }
    return largest;
  }

 private:
  static constexpr int32_t kNoBlock = 1 << 28;  // far outside: never to be read

  int64_t row_width() const { return int64_t{layer_.kv_heads} * layer_.head_dim; }
  const float* row(const std::vector<float>& plane, int position, int32_t head) const {
    return plane.data() + position * row_width() + int64_t{head} * layer_.head_dim;
  }
  float* row(std::vector<float>& plane, int position, int32_t head) const {
    return plane.data() + position * row_width() + int64_t{head} * layer_.head_dim;
  }
  // What codes stand for replaces the keys at positions [first, last], of one block.
  void read_keys(int sequence, int first, int last) {
    const std::byte* keys =
        layer_.keys + tables_[sequence * stride_ + first / kBlockPositions] * layer_.block_stride;
    std::vector<float> block(kBlockPositions * layer_.head_dim);
    for (int32_t h = 0; h < layer_.kv_heads; ++h) {
      reference::dequantize_keys(layer_, keys, h, last % kBlockPositions + 1, block.data());
      for (int p = first; p <= last; ++p) {
        const auto read = block.begin() + p % kBlockPositions * layer_.head_dim;
        std::copy(read, read + layer_.head_dim, row(keys_[sequence], p, h));
      }
    }
  }
  // As the cache gives them back, but for codes: see put().
  std::vector<float> rounded(std::vector<float> values) const {
    if (layer_.has_codes() || layer_.type == tensor::DType::f32) return values;
    for (float& value : values) value = tensor::round_to_bf16(value);
    return values;
  }
  // `side`: the keys or the values of a block. What codes stand for replaces `from`.
  void put(std::byte* side, bool is_key, int32_t head, int64_t slot, float* from) const {
    if (layer_.has_codes() && is_key) return reference::quantize_key(layer_, side, head, slot, from);
    if (layer_.has_codes()) {
      reference::quantize_value(layer_, side, head, slot, from);
      return reference::dequantize_value(layer_, side, head, slot, from);
    }
    std::byte* to = side + layer_.offset(head, slot);
    for (int32_t d = 0; d < layer_.head_dim; ++d) {
      const uint16_t narrow = tensor::f32_to_bf16(from[d]);
      if (layer_.type == tensor::DType::f32) {
        std::memcpy(to + 4 * d, from + d, 4);
      } else {
        std::memcpy(to + 2 * d, &narrow, 2);
      }
    }
  }

  std::vector<int> capacities_, lengths_;
  int64_t stride_ = 0;
  std::vector<int32_t> tables_;
  std::unique_ptr<GuardedBuffer<std::byte>> bytes_;
  KvLayer layer_;
  std::vector<std::vector<float>> keys_, values_;  // [sequence][position · KV · HD]
};

}  // namespace rafter::kernels::testing
