// Scales and biases of affine groups as their file stores them: bf16, f16 or f32, at any address (AVX-512).
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Byte indices that bring scale `group(l)` of a 16-byte lane to fp32 lane l: as its upper half (bf16) …
template <int kLaneBytes, int kOffset>
struct ScaleShuffle {
  alignas(64) uint8_t index[64];
  template <class LaneGroup>
  constexpr explicit ScaleShuffle(LaneGroup group) : index() {
    for (int byte = 0; byte < 64; ++byte) {
      const int lane = byte / kLaneBytes, part = byte % kLaneBytes - kOffset;
      index[byte] = static_cast<uint8_t>(lane < 16 && part >= 0 ? 2 * group(lane) + part : 0x80);
    }
  }
};

// The lowest `count` (at most 16) lanes.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1 << count) - 1);
}

// Each type offers
//   load(from, count)            up to 16 values in order
//   spread<Input>(from)          the values of one step's groups, each in the lanes of its group
struct Bf16Scales {
  static constexpr int kBytes = 2;

  static __m512 load(const std::byte* from, int64_t count) {
    const __m256i words = _mm256_maskz_loadu_epi16(first_lanes(count), from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }

  template <class Input>
  [[gnu::always_inline]] static __m512 spread(const std::byte* from) {
    static constexpr ScaleShuffle<4, 2> kShuffle{[](int lane) { return Input::lane_group(lane); }};
    return _mm512_castsi512_ps(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_groups<Input>(from)),
                                                   _mm512_load_si512(kShuffle.index)));
  }

  // The 16-bit values of a step's groups: 8, 4 or 2.
  template <class Input>
  [[gnu::always_inline]] static __m128i load_groups(const std::byte* from) {
    if constexpr (Input::kGroup == 32) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    if constexpr (Input::kGroup == 64) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm_loadu_si32(from);
  }
};

struct F16Scales {
  static constexpr int kBytes = 2;

  static __m512 load(const std::byte* from, int64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(count), from));
  }

  template <class Input>
  [[gnu::always_inline]] static __m512 spread(const std::byte* from) {
    static constexpr ScaleShuffle<2, 0> kShuffle{[](int lane) { return Input::lane_group(lane); }};
    const __m256i groups = _mm256_broadcastsi128_si256(Bf16Scales::load_groups<Input>(from));
    const __m256i index = _mm256_load_si256(reinterpret_cast<const __m256i*>(kShuffle.index));
    return _mm512_cvtph_ps(_mm256_shuffle_epi8(groups, index));
  }
};

struct F32Scales {
  static constexpr int kBytes = 4;

  static __m512 load(const std::byte* from, int64_t count) {
    return _mm512_maskz_loadu_ps(first_lanes(count), from);
  }

  template <class Input>
  [[gnu::always_inline]] static __m512 spread(const std::byte* from) {
    struct Index {
      alignas(64) int32_t lane[16];
      constexpr Index() : lane() {
        for (int l = 0; l < 16; ++l) lane[l] = Input::lane_group(l);
      }
    };
    static constexpr Index kIndex;
    constexpr int64_t kGroups = 256 / Input::kGroup;
    return _mm512_permutexvar_ps(_mm512_load_si512(kIndex.lane), load(from, kGroups));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
