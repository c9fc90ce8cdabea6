// Rows appended as codes: every tier's, in every call.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/kv_attention_check.h"

namespace rafter::kernels::testing {
namespace {

// The regression by name: a KV quantiser converting only the first call.
TEST(KvCodes, AQuantiserConvertingOnlyTheFirstCall) {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (base::CpuTier tier : base::supported_tiers()) tables.push_back(&cpu_kernels(tier));
  for (const KernelTable* table : tables) {
    for (const KvCodes& codes : {KvCodes{8, 64}, KvCodes{4, 64}, KvCodes{8, 32}, KvCodes{4, 32}}) {
      for (int32_t head_dim : {64, 128, 192, 256}) {
        EXPECT_EQ(check_append_calls(table->kv_append, codes, head_dim), "")
            << table->name << ", " << codes.bits << " bits, head_dim " << head_dim;
      }
    }
    for (int32_t head_dim : {8, 24, 40, 80}) {
      EXPECT_EQ(check_append_calls(table->kv_append, {8, head_dim}, head_dim), "") << table->name;
      EXPECT_EQ(check_append_calls(table->kv_append, {4, head_dim}, head_dim), "") << table->name;
    }
  }
}

TEST(KvCodes, AttentionOverThemIsWithinTheDerivedBound) {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (base::CpuTier tier : base::supported_tiers()) tables.push_back(&cpu_kernels(tier));
  for (const KernelTable* table : tables) {
    for (const KvCodes& codes : {KvCodes{8, 64}, KvCodes{4, 64}, KvCodes{8, 32}, KvCodes{4, 32}}) {
      for (int32_t head_dim : {64, 128, 192, 256}) {
        const CodesAttention checked =
            check_codes_attention(*table, table->kv_append, table->attention, codes, head_dim);
        EXPECT_EQ(checked.fault, "") << table->name << ", " << codes.bits << " bits, head_dim " << head_dim;
        EXPECT_GT(checked.worst_share, 0.05) << "a bound that anything meets";
      }
    }
  }
}

TEST(KvCodes, BytesOfAPosition) {
  KvLayer layer;
  layer.kv_heads = 8;
  layer.head_dim = 128;
  EXPECT_EQ(layer.position_bytes(), 256);
  layer.codes = {8, 64};
  EXPECT_EQ(layer.position_bytes(), 128 + 2 * 4);
  layer.codes = {4, 32};
  EXPECT_EQ(layer.position_bytes(), 64 + 4 * 4);
  EXPECT_EQ(layer.side_bytes(), 64 * 8 * 80);
  EXPECT_EQ(layer.scale_offset(7, 63, 3) + 2 * kBlockPositions + 2, layer.side_bytes());
}

}  // namespace
}  // namespace rafter::kernels::testing
