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

// 32 values d·(q − 16): bits 0 to 3 of q are a nibble as in Q4_0, bit 4 is bit e of `high`.
struct Q5_0Block {
  uint16_t d;
  uint8_t high[4];
  uint8_t codes[16];
};
static_assert(sizeof(Q5_0Block) == 22);

// 32 values d·q + m; q as in Q5_0.
struct Q5_1Block {
  uint16_t d;
  uint16_t m;
  uint8_t high[4];
  uint8_t codes[16];
};
static_assert(sizeof(Q5_1Block) == 24);

// 32 values d·q, q signed.
struct Q8_0Block {
  uint16_t d;
  int8_t codes[32];
};
static_assert(sizeof(Q8_0Block) == 34);

// 32 values d·T[q], q a nibble as in Q4_0, T the table of tensor/iq4_values.h.
struct Iq4NlBlock {
  uint16_t d;
  uint8_t codes[16];
};
static_assert(sizeof(Iq4NlBlock) == 18);

// 32 values 2^(exponent − 127)·v, v the e2m1 value of a nibble as in Q4_0.
struct Mxfp4Block {
  uint8_t exponent;
  uint8_t codes[16];
};
static_assert(sizeof(Mxfp4Block) == 17);

// 256 values d·(scale & 15)·q − dmin·(scale >> 4) with scale = scales[e / 16]. With h = e / 128,
// s = e % 128 / 32, l = e % 32, the code of element e is bits 2·s and 2·s + 1 of codes[32·h + l].
struct Q2_KBlock {
  uint8_t scales[16];
  uint8_t codes[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(Q2_KBlock) == 84);

// 256 values d·(scale − 32)·(q − 4): bits 0 and 1 of q as in Q2_K, bit 2 is bit e / 32 of high[e % 32]. The
// scale of group G = e / 16 has its low four bits in scales[G % 8], low nibble for G < 8, and its high two in
// bits 2·(G / 4) and 2·(G / 4) + 1 of scales[8 + G % 4].
struct Q3_KBlock {
  uint8_t high[32];
  uint8_t codes[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(Q3_KBlock) == 110);

// 256 values d·scale·q − dmin·minimum, both of group j = e / 32 (tensor/k_scales.h); q is a nibble (low for
// even j) of codes[32·(j / 2) + e % 32].
struct Q4_KBlock {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t codes[128];
};
static_assert(sizeof(Q4_KBlock) == 144);

// As Q4_K, with bit j of high[e % 32] as bit 4 of q.
struct Q5_KBlock {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t codes[128];
};
static_assert(sizeof(Q5_KBlock) == 176);

// 256 values d·(scale − 32)·T[q] with T and nibbles as in IQ4_NL, 16 bytes a group of 32. Group j has the low
// four bits of its scale in a nibble (low for even j) of scales[j / 2], the high two in bits 2·j and 2·j + 1
// of `high`.
struct Iq4XsBlock {
  uint16_t d;
  uint16_t high;
  uint8_t scales[4];
  uint8_t codes[128];
};
static_assert(sizeof(Iq4XsBlock) == 136);

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
