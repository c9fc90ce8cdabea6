// Scales and biases of affine groups as their file stores them: bf16, f16 or f32, at any address (AVX-512).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

namespace rafter::kernels::RAFTER_TIER {
namespace {

// The lowest `count` (at most 16) lanes.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1 << count) - 1);
}

// The 16-bit values of a step's 8, 4 or 2 groups, repeated through the vector by the load itself.
template <int kGroup>
[[gnu::always_inline]] inline __m512i repeat_words(const std::byte* from) {
  if constexpr (kGroup == 32) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (kGroup == 64) {
    return _mm512_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  } else {
    return _mm512_broadcastd_epi32(_mm_loadu_si32(from));
  }
}

// Byte indices that bring the 16-bit value of a lane's group to the lane: kLaneBytes wide, the value in its
// last two bytes, zeros before.
template <class Input, int kLaneBytes>
struct SpreadShuffle {
  alignas(64) uint8_t index[64];
  constexpr SpreadShuffle() : index() {
    for (int i = 0; i < 64; ++i) {
      const int lane = i / kLaneBytes, part = i % kLaneBytes - (kLaneBytes - 2);
      index[i] = static_cast<uint8_t>(lane < 16 && part >= 0 ? 2 * Input::lane_group(lane) + part : 0x80);
    }
  }
};

// Each type offers
//   load(from, count)     up to 16 values in order
//   spread<Input>(from)   the values of one step's groups, each in the lanes of its group
struct Bf16Scales {
  static constexpr int kBytes = 2;

  static __m512 load(const std::byte* from, int64_t count) {
    const __m256i words = _mm256_maskz_loadu_epi16(first_lanes(count), from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }

  template <class Input>
  [[gnu::always_inline]] static __m512 spread(const std::byte* from) {
    static constexpr SpreadShuffle<Input, 4> kShuffle;
    return _mm512_castsi512_ps(
        _mm512_shuffle_epi8(repeat_words<Input::kGroup>(from), _mm512_load_si512(kShuffle.index)));
  }
};

struct F16Scales {
  static constexpr int kBytes = 2;

  static __m512 load(const std::byte* from, int64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(count), from));
  }

  template <class Input>
  [[gnu::always_inline]] static __m512 spread(const std::byte* from) {
    static constexpr SpreadShuffle<Input, 2> kShuffle;
    const __m512i halves =
        _mm512_shuffle_epi8(repeat_words<Input::kGroup>(from), _mm512_load_si512(kShuffle.index));
    return _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
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
    return _mm512_permutexvar_ps(_mm512_load_si512(kIndex.lane), load(from, 256 / Input::kGroup));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
