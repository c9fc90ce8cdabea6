// The bodies of the probes (kernels/cpu/probes.h), compiled once per tier.
#pragma once

#include "kernels/cpu/probes.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// `kStreams` linear streams at equal distances, each fetched `kAhead` bytes ahead of its loads (0: left to
// the hardware). One stream is what a plain loop does; several far-apart ones keep more lines in flight.
template <int kStreams, int kAhead>
uint64_t read_streams(const std::byte* data, int64_t bytes) {
  constexpr int kVectors = 4;  // per stream and turn, each with a sum of its own
  constexpr int64_t kVector = sizeof(Words);
  const int64_t part = bytes / kStreams;
  Words sums[kStreams][kVectors] = {};
  for (int64_t at = 0; at < part; at += kVectors * kVector) {
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* from = data + s * part + at;
      if constexpr (kAhead > 0) {
        for (int64_t line = 0; line < kVectors * kVector; line += 64)
          __builtin_prefetch(from + kAhead + line);
      }
      for (int v = 0; v < kVectors; ++v) {
        Words words;
        std::memcpy(&words, from + v * kVector, sizeof(words));
        sums[s][v] += words;
      }
    }
  }
  Words all = {};
  for (const auto& stream : sums) {
    for (const Words& sum : stream) all += sum;
  }
  uint64_t total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += all[lane];
  return total;
}

constexpr ReadProbe kReaders[] = {
    {"1 stream", read_streams<1, 0>},
    {"1 stream, 1 KiB ahead", read_streams<1, 1024>},
    {"1 stream, 4 KiB ahead", read_streams<1, 4096>},
    {"2 streams", read_streams<2, 0>},
    {"4 streams", read_streams<4, 0>},
    {"4 streams, 512 B ahead", read_streams<4, 512>},
    {"4 streams, 1 KiB ahead", read_streams<4, 1024>},
    {"4 streams, 2 KiB ahead", read_streams<4, 2048>},
    {"8 streams", read_streams<8, 0>},
    {"8 streams, 1 KiB ahead", read_streams<8, 1024>},
};

// Accumulators that the compiler can neither merge nor drop: none starts as another's copy.
constexpr int kChains = 12;

[[gnu::noinline]] float peak_fma(int64_t rounds) {
  Floats sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = broadcast(static_cast<float>(i));
  Floats factor = broadcast(0.999f), term = broadcast(0.5f);
  for (int64_t round = 0; round < rounds; ++round) {
    for (auto& sum : sums) sum = multiply_add(sum, factor, term);
  }
  float total = 0;
  for (const auto& sum : sums) total += sum[0];
  return total;
}

#if defined(__AVX512BF16__)
[[gnu::noinline]] float peak_bf16_dot(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh ones = (__m512bh)_mm512_set1_epi32(0x3F803F80);
  for (int64_t round = 0; round < rounds; ++round) {
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, ones, ones);
  }
  float total = 0;
  for (const auto& sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}
#endif

#if defined(__AVX512VNNI__)
[[gnu::noinline]] float peak_int8_dot(int64_t rounds) {
  __m512i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-1);
  for (int64_t round = 0; round < rounds; ++round) {
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  __m512i total = _mm512_setzero_si512();
  for (const auto& sum : sums) total = _mm512_add_epi32(total, sum);
  return static_cast<float>(_mm512_cvtsi512_si32(total));
}
#elif defined(__AVX2__)
[[gnu::noinline]] float peak_int8_dot(int64_t rounds) {  // three instructions for what VNNI does in one
  __m256i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_epi32(i);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-1), ones = _mm256_set1_epi16(1);
  for (int64_t round = 0; round < rounds; ++round) {
    for (auto& sum : sums) {  // each product depends on its sum, or it would be computed once
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_xor_si256(a, sum), b);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
  }
  __m256i total = _mm256_setzero_si256();
  for (const auto& sum : sums) total = _mm256_add_epi32(total, sum);
  return static_cast<float>(_mm256_cvtsi256_si32(total));
}
#endif

constexpr PeakProbe kPeaks[] = {
    {"fp32 fma", 2.0 * kLanes* kChains, peak_fma},
#if defined(__AVX512BF16__)
    {"bf16 dot", 4.0 * kLanes* kChains, peak_bf16_dot},
#endif
#if defined(__AVX2__)
    {"int8 dot", 8.0 * kLanes* kChains, peak_int8_dot},
#endif
};

CpuProbes probes() { return {kReaders, kPeaks}; }

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
