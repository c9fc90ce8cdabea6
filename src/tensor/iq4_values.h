// The sixteen levels of GGUF's IQ4_NL and IQ4_XS.
#pragma once

#include <cmath>
#include <cstdint>

namespace rafter::tensor {

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// The code of the level that is nearest to `value`.
inline uint8_t nearest_iq4(float value) {
  uint8_t best = 0;
  for (uint8_t i = 1; i < 16; ++i) {
    if (std::fabs(kIq4Values[i] - value) < std::fabs(kIq4Values[best] - value)) best = i;
  }
  return best;
}

}  // namespace rafter::tensor
