// Faults of a cache with codes that the check of appended rows must see.
#include <gtest/gtest.h>

#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/kv_attention_check.h"

namespace rafter::kernels::testing {
namespace {

int calls = 0;  // of the append under test

std::byte* block_of(const KvAppendArgs& args, int64_t b) {
  const int64_t block = block_table(*args.input, args.cache, b)[args.input->positions[b] / kBlockPositions];
  return args.cache.keys + block * args.cache.block_stride;
}

// Later calls leave their rows in 16 bits.
void convert_only_the_first_call(const KvAppendArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  if (calls++ == 0) return reference_kernels().kv_append(args, worker);
  for (int64_t b = 0; b < args.input->rows; ++b) {
    std::byte* to = block_of(args, b) + args.cache.offset(0, args.input->positions[b] % kBlockPositions);
    for (int64_t d = 0; d < args.cache.head_dim / 2; ++d) {
      const uint16_t narrow = tensor::f32_to_bf16(args.k[b * args.cache.kv_heads * args.cache.head_dim + d]);
      std::memcpy(to + 2 * d, &narrow, 2);
    }
  }
}

// Later calls quantise with their own scales and keep the first row's.
void keep_the_first_scale(const KvAppendArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  reference_kernels().kv_append(args, worker);
  if (calls++ == 0) return;
  for (int64_t b = 0; b < args.input->rows; ++b) {
    const int64_t slot = args.input->positions[b] % kBlockPositions;
    std::memcpy(block_of(args, b) + args.cache.scale_offset(0, slot, 0),
                block_of(args, b) + args.cache.scale_offset(0, 0, 0), 2);
  }
}

// An append touches the row before it.
void rewrite_the_row_before(const KvAppendArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  reference_kernels().kv_append(args, worker);
  const int64_t slot = args.input->positions[0] % kBlockPositions;
  if (slot > 0) *(block_of(args, 0) + args.cache.offset(0, slot) - 1) ^= std::byte{0x80};
}

TEST(KvCodesMutants, FaultsOfAppendAreSeen) {
  for (const KvCodes& codes : {KvCodes{8, 64}, KvCodes{4, 64}}) {
    EXPECT_EQ(check_append_calls(reference_kernels().kv_append, codes, 64), "");
    const std::pair<const char*, AppendKernel> faults[] = {
        {"converting only the first call", convert_only_the_first_call},
        {"the first call's scale for every call", keep_the_first_scale},
        {"a row written again by the next", rewrite_the_row_before}};
    for (const auto& [name, append] : faults) {
      calls = 0;
      EXPECT_NE(check_append_calls(append, codes, 64), "") << name << ", " << codes.bits << " bits";
    }
  }
}

// Attention that forgets to rotate its queries (twice is not at all), or to rotate its output back.
void leave_queries_as_they_are(const AttentionArgs& args, Worker& worker) {
  std::vector<float> q(args.q, args.q + int64_t{args.heads} * args.cache.head_dim);
  for (int32_t h = 0; h < args.heads; ++h)
    reference::rotate_row(args.cache, q.data() + h * args.cache.head_dim);
  AttentionArgs rotated = args;
  rotated.q = q.data();
  reference_kernels().attention(rotated, worker);
}
void leave_the_output_rotated(const AttentionArgs& args, Worker& worker) {
  reference_kernels().attention(args, worker);
  for (int32_t h = 0; h < args.heads; ++h)
    reference::rotate_row(args.cache, args.out + h * args.cache.head_dim);
}

// Appends with the codes of a row turned by a word, of the keys or of the values.
template <bool kOfKeys>
void turn_the_codes(const KvAppendArgs& args, Worker& worker) {
  reference_kernels().kv_append(args, worker);
  for (int64_t b = 0; b < args.input->rows; ++b) {
    for (int32_t h = 0; h < args.cache.kv_heads; ++h) {
      std::byte* row = block_of(args, b) + (kOfKeys ? 0 : args.cache.side_bytes()) +
                       args.cache.offset(h, args.input->positions[b] % kBlockPositions);
      std::rotate(row, row + 4, row + args.cache.row_bytes());
    }
  }
}

TEST(KvCodesMutants, FaultsOfAttentionOverCodesAreSeen) {
  const KernelTable& table = reference_kernels();
  for (const KvCodes& codes : {KvCodes{8, 64}, KvCodes{4, 64}}) {
    const auto fault = [&](AppendKernel append, AttentionKernel attention) {
      return check_codes_attention(table, append, attention, codes, 64).fault;
    };
    EXPECT_EQ(fault(table.kv_append, table.attention), "");
    EXPECT_NE(fault(table.kv_append, leave_the_output_rotated), "");
    EXPECT_NE(fault(turn_the_codes<false>, table.attention), "");
    EXPECT_NE(fault(table.kv_append, leave_queries_as_they_are), "");
    EXPECT_NE(fault(turn_the_codes<true>, table.attention), "");
  }
}

}  // namespace
}  // namespace rafter::kernels::testing
