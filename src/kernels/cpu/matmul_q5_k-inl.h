// GGUF Q5_K: Q4_K with a fifth bit of each code in 32 bytes before the nibbles.
#pragma once

#include "kernels/cpu/matmul_q4_k-inl.h"

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_unpacked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct Q5KUnpacker {
  static constexpr int kGroup = 32;

  // Eight bytes times a half.
  [[gnu::always_inline]] static __m256 scaled(uint64_t bytes, float factor) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
    return _mm256_mul_ps(_mm256_set1_ps(factor), _mm256_cvtepi32_ps(wide));
  }

  static void unpack(UnpackedRow row) {
    for (int64_t k = 0; k < row.columns; k += 256, row.data += 176) {
      const KScales packed = read_k_scales(row.data + 4);
      _mm256_storeu_ps(row.scales + k / 32, scaled(packed.scales, f16_value(row.data)));
      _mm256_storeu_ps(row.biases + k / 32, scaled(packed.minima, -f16_value(row.data + 2)));
      const __m256i fifth = load_32(row.data + 16);
      for (int j = 0; j < 8; ++j) {
        const __m256i bytes = load_32(row.data + 48 + 32 * (j / 2));
        const __m256i codes =
            _mm256_and_si256(j % 2 == 0 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
        const __mmask32 set = _mm256_test_epi8_mask(fifth, _mm256_set1_epi8(static_cast<char>(1 << j)));
        store_codes(row.codes + k + 32 * j, _mm256_mask_add_epi8(codes, set, codes, _mm256_set1_epi8(16)));
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif
