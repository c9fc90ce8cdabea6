// GGUF's quantised blocks as bytes in a file. Files place blocks at any address: load one with load_unaligned
// before reading its fields. `d`, `m`: IEEE half bits.
#pragma once

#include <cstdint>

namespace rafter::tensor {

// 32 values d·(q − 8). Byte j holds element j in its low nibble and element j + 16 in its high nibble.
struct Q4_0Block {
  uint16_t d;
  uint8_t codes[16];
};
static_assert(sizeof(Q4_0Block) == 18);

// 32 values d·q + m; nibbles as in Q4_0.
struct Q4_1Block {
  uint16_t d;
  uint16_t m;
  uint8_t codes[16];
};
static_assert(sizeof(Q4_1Block) == 20);

// 32 values d·q, q signed.
struct Q8_0Block {
  uint16_t d;
  int8_t codes[32];
};
static_assert(sizeof(Q8_0Block) == 34);

// 256 values d·scales[e / 16]·(q − 32). With h = e / 128, s = e % 128 / 32, l = e % 32, the code of element e
// is
//   low 4 bits:  low[64·h + 32·(s % 2) + l], nibble s / 2
//   high 2 bits: high[32·h + l], bits 2·s and 2·s + 1
struct Q6_KBlock {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(Q6_KBlock) == 210);

}  // namespace rafter::tensor
