// GGUF Q5_0 and Q5_1: blocks of 32: f16 d (and m), 32 fifth bits, 16 bytes of nibbles; byte j holds elements
// j and j + 16.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

template <bool kMinimum>
struct Q5BlockShape {
  static constexpr int64_t kHigh = kMinimum ? 4 : 2, kNibbles = kHigh + 4, kBytes = kNibbles + 16;
};

// To fp32, for tiers without integer dot products: d·(q − 16), or d·q + m.
template <bool kMinimum>
struct Q5BlockDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    using Shape = Q5BlockShape<kMinimum>;
    const std::byte* block = weight.data + (n * weight.columns + k) / 32 * Shape::kBytes;
    Words lane;
    for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<uint32_t>(i);
    for (int64_t b = 0; b < count / 32; ++b, block += Shape::kBytes, out += 32) {
      const float d = f16_value(block), m = kMinimum ? f16_value(block + 2) : 0;
      const auto high = load_bytes<uint32_t>(block + Shape::kHigh);
      for (int i = 0; i < 32; i += kLanes) {
        const Words nibbles = load_bytes_wide(block + Shape::kNibbles + i % 16) >> (i / 16 * 4) & 15;
        const Words fifth = ((high >> i) - Words{}) >> lane & 1;
        const Floats codes = to_floats(nibbles | fifth << 4);
        store(out + i, kMinimum ? d * codes + m : d * (codes - 16.0f));
      }
    }
  }
};
using Q5_0Decoder = Q5BlockDecoder<false>;
using Q5_1Decoder = Q5BlockDecoder<true>;

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_unpacked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

template <bool kMinimum>
struct Q5BlockUnpacker {
  static constexpr int kGroup = 32;

  static void unpack(UnpackedRow row) {
    using Shape = Q5BlockShape<kMinimum>;
    for (int64_t g = 0; g < row.columns / 32; ++g, row.data += Shape::kBytes) {
      const float d = f16_value(row.data);
      row.scales[g] = d;
      row.biases[g] = kMinimum ? f16_value(row.data + 2) : -16 * d;
      const __m256i codes = split_nibbles(row.data + Shape::kNibbles);
      const __mmask32 fifth = load_bytes<uint32_t>(row.data + Shape::kHigh);
      store_codes(row.codes + 32 * g, _mm256_mask_add_epi8(codes, fifth, codes, _mm256_set1_epi8(16)));
    }
  }
};
using Q5_0Unpacker = Q5BlockUnpacker<false>;
using Q5_1Unpacker = Q5BlockUnpacker<true>;

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif
