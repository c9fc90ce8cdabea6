#include "tensor/dtype.h"

#include <cmath>

#include <gtest/gtest.h>

namespace rafter::tensor {
namespace {

TEST(DType, EveryHalfRoundTripsAndEveryNeighbourRoundsToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    ASSERT_EQ(f32_to_f16(value), bits);
    // The midpoint to the next larger half goes to the even one of the two.
    if ((bits & 0x7FFF) < 0x7BFF) {
      const float next = f16_to_f32(static_cast<uint16_t>(bits + 1));
      ASSERT_EQ(f32_to_f16((value + next) / 2), bits % 2 == 0 ? bits : bits + 1) << bits;
    }
  }
  EXPECT_EQ(f32_to_f16(65519.f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.f), 0x7C00);
}

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // tie, to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // tie, to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace rafter::tensor
