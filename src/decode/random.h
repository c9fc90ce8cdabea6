// Random numbers of a request: counter-based, so a draw depends on (seed, step) and on nothing else: not on
// the neighbours in the batch, not on what was drawn before.
#pragma once

#include <cstdint>

namespace rafter::decode {

// Key of a request's step-th sampled token (0-based): seed XOR (step + 1) · 0x9e3779b97f4a7c15 mod 2^64.
inline uint64_t step_key(uint64_t seed, uint64_t step) { return seed ^ ((step + 1) * 0x9e3779b97f4a7c15ull); }

// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection whose outputs pass the usual test batteries
// on counters.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The key of the n-th draw within one step (XTC's coin is 0, the token's draw is 1).
inline uint64_t split_key(uint64_t key, uint64_t n) { return mix64(key + (n + 1) * 0xd1342543de82ef95ull); }

// Uniform in [0, 1), 53 bits.
inline double uniform(uint64_t key) { return static_cast<double>(mix64(key) >> 11) * 0x1p-53; }

// A seed that no other request of this process was given: a process-wide counter advanced by 0x9e3779b9, XOR
// the low 32 bits of the clock at the first call; 32 bits long so that it survives JSON numbers. Thread-safe.
uint64_t fresh_seed();

}  // namespace rafter::decode
