// The row kernels of every tier against the reference: remainders, thread counts, rows alone and in company.
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "tensor/codec.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_cache.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {
namespace {

const int64_t kWidths[] = {1, 3, 7, 8, 17, 31, 64, 67, 100, 128, 257, 576, 4099};
const int kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 37};
constexpr double kUlp = 0x1p-23;

// Runs an op over the given rows of the test's data and returns their outputs, one after another.
using Op = std::function<std::vector<float>(const KernelTable&, TestTeam&, const std::vector<int>& rows)>;

std::vector<int> first_rows(int count) {
  std::vector<int> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<float> gather(const std::vector<float>& values, const std::vector<int>& rows, int64_t width) {
  std::vector<float> out;
  for (int row : rows)
    out.insert(out.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
  return out;
}

// An output of `rows` live rows of `width` in a buffer of three rows more, with every check on the buffer.
std::vector<float> run_guarded(int64_t rows, int64_t width, const std::function<void(float*)>& run) {
  GuardedBuffer<float> out((rows + 3) * width);
  run(out.data());
  EXPECT_EQ(out.damage(), "");
  EXPECT_TRUE(out.untouched(rows * width, (rows + 3) * width)) << "rows past the live ones were written";
  return {out.data(), out.data() + rows * width};
}

class RowKernels : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  const KernelTable& table() const { return cpu_kernels(GetParam()); }

  // `bound` is on the error of any value of a row, given the row's expected values.
  void check(const Op& op, int rows, int64_t width,
             const std::function<double(std::span<const float>)>& bound) {
    const std::vector<int> all = first_rows(rows);
    const std::vector<float> expected = op(reference_kernels(), one_, all);
    std::vector<double> bounds;
    for (int b = 0; b < rows; ++b) bounds.push_back(bound(std::span(expected).subspan(b * width, width)));
    const std::vector<float> actual = op(table(), one_, all);
    const Verdict verdict = compare_values(actual, expected, width, bounds);
    ASSERT_TRUE(verdict.ok) << verdict.message << " (rows " << rows << ", width " << width << ")";
    for (TestTeam* team : {&two_, &four_}) {
      if (team == &four_ && rows % 4 != 1) continue;
      const Verdict same = compare_bits(op(table(), *team, all), actual);
      ASSERT_TRUE(same.ok) << team->size() << " threads: " << same.message;
    }
    for (int b : {0, rows / 2, rows - 1}) {
      const Verdict same = compare_bits(op(table(), two_, {b}), std::span(actual).subspan(b * width, width));
      ASSERT_TRUE(same.ok) << "row " << b << " alone: " << same.message;
    }
  }

  TestTeam one_{1}, two_{2}, four_{4};
};

INSTANTIATE_TEST_SUITE_P(Tiers, RowKernels, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

TEST_P(RowKernels, RmsNorm) {
  for (int groups : {1, 3}) {
    for (int64_t width : kWidths) {
      const std::vector<float> weight = random_values(width, 1),
                               data = random_values(37 * groups * width, 2, 3);
      for (bool in_place : {false, true}) {
        const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
          const int32_t count = static_cast<int32_t>(rows.size());
          const std::vector<float> x = gather(data, rows, groups * width);
          return run_guarded(count, groups * width, [&](float* out) {
            if (in_place) std::copy(x.begin(), x.end(), out);
            team.run(kernels.rms_norm, RmsNormArgs{&count, groups, width, 1e-5f, weight.data(),
                                                   in_place ? out : x.data(), out});
          });
        };
        for (int rows : kRowCounts) {
          // The sum's error is halved by the root; then a root, a quotient and two products.
          check(op, rows, groups * width, [&](std::span<const float> row) {
            return rounding_bound(l2_norm(row), 1) + rounding_bound(1, width) * l2_norm(row);
          });
        }
      }
    }
  }
}

TEST_P(RowKernels, RmsNormWithoutAWeight) {
  for (int64_t width : kWidths) {
    const std::vector<float> data = random_values(37 * 2 * width, 2, 3);
    const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
      const int32_t count = static_cast<int32_t>(rows.size());
      const std::vector<float> x = gather(data, rows, 2 * width);
      return run_guarded(count, 2 * width, [&](float* out) {
        team.run(kernels.rms_norm, RmsNormArgs{&count, 2, width, 1e-5f, nullptr, x.data(), out});
      });
    };
    for (int rows : {1, 5, 37}) {
      check(op, rows, 2 * width, [&](std::span<const float> row) {
        return rounding_bound(l2_norm(row), 1) + rounding_bound(1, width) * l2_norm(row);
      });
    }
  }
}

TEST_P(RowKernels, FusedRmsNormEqualsTheUnfusedOps) {
  for (int64_t width : kWidths) {
    const std::vector<float> weight = random_values(width, 1), x = random_values(37 * width, 2, 3);
    const std::vector<float> residual = random_values(37 * width, 12);
    for (float factor : {1.0f, 0.7f}) {
      for (int32_t rows : kRowCounts) {
        std::vector<float> expected(rows * width);
        one_.run(table().rms_norm,
                 RmsNormArgs{&rows, 1, width, 1e-6f, weight.data(), x.data(), expected.data()});
        one_.run(table().add, AddArgs{&rows, width, residual.data(), expected.data(), expected.data()});
        one_.run(table().scale, ScaleArgs{&rows, width, factor, expected.data(), expected.data()});
        for (bool in_place : {false, true}) {
          const std::vector<float> fused = run_guarded(rows, width, [&](float* out) {
            if (in_place) std::copy_n(residual.begin(), rows * width, out);
            two_.run(table().fused_rms_norm, RmsNormArgs{&rows, 1, width, 1e-6f, weight.data(), x.data(), out,
                                                         true, factor, in_place ? out : residual.data()});
          });
          const Verdict same = compare_bits(fused, expected);
          ASSERT_TRUE(same.ok) << same.message << " (rows " << rows << ", width " << width << ")";
        }
      }
    }
  }
}

TEST_P(RowKernels, Geglu) {
  for (int64_t width : kWidths) {
    const int64_t stride = 3 * width + 5;
    std::vector<float> gates = random_values(37 * width, 3, 4), ups = random_values(37 * stride, 4);
    const float extremes[] = {0.0f, -0.0f, 9.9f, -9.9f, 120.0f, -120.0f, 1e-30f, -1e4f};
    for (size_t i = 0; i < gates.size() && i < std::size(extremes); ++i) gates[i] = extremes[i];
    for (float& up : ups) up = std::abs(up) < 1e-2f ? 1.0f : up;
    for (int64_t offset : {int64_t{0}, width, 2 * width + 5}) {
      for (bool in_place : {false, true}) {
        const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
          const int32_t count = static_cast<int32_t>(rows.size());
          const std::vector<float> gate = gather(gates, rows, width), up = gather(ups, rows, stride);
          return run_guarded(count, width, [&](float* out) {
            if (in_place) std::copy(gate.begin(), gate.end(), out);
            team.run(kernels.geglu,
                     GegluArgs{&count, width, stride, offset, in_place ? out : gate.data(), up.data(), out});
          });
        };
        for (int rows : {1, 2, 5, 37}) {
          // Where the exponent 2u is large, its rounding counts 2u-fold: 90 times at most, where |gelu| <
          // 1e-7.
          check(op, rows, width, [](std::span<const float> row) { return 16 * kUlp * l2_norm(row) + 1e-11; });
        }
      }
    }
  }
}

TEST_P(RowKernels, ScaleAndSoftcap) {
  for (int64_t width : kWidths) {
    const std::vector<float> data = random_values(37 * width, 5, 20);
    for (bool in_place : {false, true}) {
      const auto op_of = [&](const auto& run) -> Op {
        return [&, run](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
          const int32_t count = static_cast<int32_t>(rows.size());
          const std::vector<float> x = gather(data, rows, width);
          return run_guarded(count, width, [&](float* out) {
            if (in_place) std::copy(x.begin(), x.end(), out);
            run(kernels, team, count, in_place ? out : x.data(), out);
          });
        };
      };
      const Op scale =
          op_of([&](const KernelTable& kernels, TestTeam& team, const int32_t& count, const float* x,
                    float* out) { team.run(kernels.scale, ScaleArgs{&count, width, 0.7f, x, out}); });
      const Op softcap =
          op_of([&](const KernelTable& kernels, TestTeam& team, const int32_t& count, const float* x,
                    float* out) { team.run(kernels.softcap, SoftcapArgs{&count, width, 30.0f, x, out}); });
      for (int rows : kRowCounts) {
        check(scale, rows, width, [](std::span<const float>) { return 0.0; });
        check(softcap, rows, width, [](std::span<const float>) { return 4 * kUlp * 30; });
      }
    }
  }
}

TEST_P(RowKernels, SoftcapIsAccurateAtEveryMagnitude) {
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-38f, 1e30f, -1e30f};
  for (float value = -400; value < 400; value += 0.0137f) x.push_back(value);
  std::vector<float> expected(x.size()), actual(x.size());
  const int32_t count = 1;
  const int64_t width = static_cast<int64_t>(x.size());
  one_.run(reference_kernels().softcap, SoftcapArgs{&count, width, 30.0f, x.data(), expected.data()});
  one_.run(table().softcap, SoftcapArgs{&count, width, 30.0f, x.data(), actual.data()});
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(std::abs(actual[i] - expected[i]), 5 * kUlp * std::abs(expected[i]) + 30 * 0x1p-149) << x[i];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t one = 1;
  one_.run(table().softcap, SoftcapArgs{&count, one, 30.0f, &nan, actual.data()});
  EXPECT_TRUE(std::isnan(actual[0]));
}

TEST_P(RowKernels, Swiglu) {
  for (int64_t width : kWidths) {
    std::vector<float> gates = random_values(37 * width, 3, 4), ups = random_values(37 * width, 4);
    const float extremes[] = {0.0f, -0.0f, 87.5f, -87.5f, 120.0f, -120.0f, 1e-30f, -1e4f};
    for (size_t i = 0; i < gates.size() && i < std::size(extremes); ++i) gates[i] = extremes[i];
    for (float& up : ups) up = std::abs(up) < 1e-2f ? 1.0f : up;
    for (bool in_place : {false, true}) {
      const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
        const int32_t count = static_cast<int32_t>(rows.size());
        const std::vector<float> gate = gather(gates, rows, width), up = gather(ups, rows, width);
        return run_guarded(count, width, [&](float* out) {
          if (in_place) std::copy(gate.begin(), gate.end(), out);
          team.run(kernels.swiglu, SwigluArgs{&count, width, in_place ? out : gate.data(), up.data(), out});
        });
      };
      for (int rows : kRowCounts) {
        check(op, rows, width, [](std::span<const float> row) { return 4 * kUlp * l2_norm(row) + 1e-33; });
      }
    }
  }
}

// σ's relative accuracy, where the norm of a row would hide it.
TEST_P(RowKernels, SwigluIsAccurateAtEveryMagnitude) {
  std::vector<float> gate;
  for (float x = -86.0f; x < 100.0f; x += 0.0137f) gate.push_back(x);
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> expected(gate.size()), actual(gate.size());
  const int32_t count = 1;
  const int64_t width = static_cast<int64_t>(gate.size());
  one_.run(reference_kernels().swiglu, SwigluArgs{&count, width, gate.data(), up.data(), expected.data()});
  one_.run(table().swiglu, SwigluArgs{&count, width, gate.data(), up.data(), actual.data()});
  for (size_t i = 0; i < gate.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), 4 * kUlp * std::abs(expected[i])) << gate[i];
  }
}

TEST_P(RowKernels, Add) {
  for (int64_t width : kWidths) {
    const std::vector<float> as = random_values(37 * width, 5), bs = random_values(37 * width, 6);
    for (bool in_place : {false, true}) {
      const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
        const int32_t count = static_cast<int32_t>(rows.size());
        const std::vector<float> a = gather(as, rows, width), b = gather(bs, rows, width);
        return run_guarded(count, width, [&](float* out) {
          if (in_place) std::copy(a.begin(), a.end(), out);
          team.run(kernels.add, AddArgs{&count, width, in_place ? out : a.data(), b.data(), out});
        });
      };
      for (int rows : kRowCounts) {
        check(op, rows, width, [](std::span<const float>) { return 0.0; });
      }
    }
  }
}

TEST_P(RowKernels, Embed) {
  const tensor::NumberFormat formats[] = {tensor::NumberFormat::plain(tensor::DType::bf16),
                                          tensor::NumberFormat::plain(tensor::DType::f32),
                                          tensor::NumberFormat::affine(4, 64, tensor::DType::bf16),
                                          tensor::NumberFormat::block(tensor::FormatKind::q8_0)};
  for (const tensor::NumberFormat& format : formats) {
    const int64_t width = 192;
    const tensor::EncodedMatrix matrix =
        tensor::encode_matrix(format, 50, width, random_values(50 * width, 7));
    for (float scale : {1.0f, 13.856406f}) {
      const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
        StepRows step;
        for (int row : rows) step.add(0, row, 0, row + 1, (row * 31 + 49) % 50);
        const StepInput input = step.input();
        return run_guarded(input.rows, width, [&](float* out) {
          team.run(kernels.embed, EmbedArgs{&input, matrix.view(), scale, out});
        });
      };
      for (int rows : kRowCounts) {
        check(op, rows, width, [](std::span<const float>) { return 0.0; });
      }
    }
  }
}

TEST_P(RowKernels, SelectRows) {
  const int64_t width = 67;
  const std::vector<float> data = random_values(37 * width, 8);
  for (const std::vector<int32_t>& wanted : {std::vector<int32_t>{}, {0}, {36}, {0, 5, 6, 36}}) {
    StepRows step;
    for (int row = 0; row < 37; ++row) step.add(0, row, 0, row + 1);
    step.wanted = wanted;
    const StepInput input = step.input();
    const auto run = [&](const KernelTable& kernels, TestTeam& team) {
      return run_guarded(input.wanted_rows, width, [&](float* out) {
        team.run(kernels.select_rows, SelectRowsArgs{&input, width, data.data(), out});
      });
    };
    const Verdict verdict = compare_bits(run(table(), two_), run(reference_kernels(), one_));
    ASSERT_TRUE(verdict.ok) << verdict.message;
  }
}

std::vector<float> rope_frequencies(int pairs, double base) {
  std::vector<float> frequencies(pairs);
  for (int i = 0; i < pairs; ++i) frequencies[i] = static_cast<float>(std::pow(base, -double(i) / pairs));
  return frequencies;
}

TEST_P(RowKernels, RopeAngles) {
  for (int rotated : {2, 20, 64, 128}) {
    const std::vector<float> frequencies = rope_frequencies(rotated / 2, 1e4);
    for (float scale : {1.0f, 0.125f}) {
      const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
        StepRows step;
        for (int row : rows) step.add(0, row * row * 751, 0, row + 1);  // to a million
        const StepInput input = step.input();
        return run_guarded(input.rows, rotated, [&](float* out) {
          team.run(kernels.rope_angles, RopeAnglesArgs{&input, rotated, scale, frequencies.data(), out});
        });
      };
      for (int rows : kRowCounts) {
        check(op, rows, rotated, [](std::span<const float>) { return kUlp; });
      }
    }
  }
}

struct RopeShape {
  int32_t heads, head_dim, rotated;
  RopeLayout layout;
  float magnitude;
};

const RopeShape kRopeShapes[] = {
    {4, 64, 64, RopeLayout::half, 1.0f},     {3, 64, 64, RopeLayout::adjacent, 1.0f},
    {2, 80, 20, RopeLayout::half, 1.19f},    {2, 80, 20, RopeLayout::adjacent, 1.19f},
    {5, 128, 128, RopeLayout::half, 1.0f},   {1, 8, 2, RopeLayout::half, 1.0f},
    {1, 40, 34, RopeLayout::adjacent, 0.7f}, {2, 96, 90, RopeLayout::half, 1.0f},
    {1, 256, 256, RopeLayout::half, 1.0f}};

std::vector<float> random_angles(int rows, int32_t rotated) {
  std::vector<float> angles(rows * rotated);
  for (int b = 0; b < rows; ++b) {
    for (int i = 0; i < rotated / 2; ++i) {
      angles[b * rotated + i] = std::cos(0.7f * b + i);
      angles[b * rotated + rotated / 2 + i] = std::sin(0.7f * b + i);
    }
  }
  return angles;
}

TEST_P(RowKernels, Rope) {
  for (const RopeShape& shape : kRopeShapes) {
    const int64_t width = shape.heads * shape.head_dim;
    const std::vector<float> data = random_values(37 * width, 9),
                             all_angles = random_angles(37, shape.rotated);
    for (bool in_place : {false, true}) {
      const Op op = [&](const KernelTable& kernels, TestTeam& team, const std::vector<int>& rows) {
        const int32_t count = static_cast<int32_t>(rows.size());
        const std::vector<float> x = gather(data, rows, width),
                                 angles = gather(all_angles, rows, shape.rotated);
        return run_guarded(count, width, [&](float* out) {
          if (in_place) std::copy(x.begin(), x.end(), out);
          team.run(kernels.rope, RopeArgs{&count, shape.heads, shape.head_dim, shape.rotated, shape.layout,
                                          shape.magnitude, angles.data(), in_place ? out : x.data(), out});
        });
      };
      for (int rows : kRowCounts) {
        // Magnitude, product, sum of a pair of norm at most 5.
        check(op, rows, width, [](std::span<const float>) { return 3 * kUlp * 5; });
      }
    }
  }
}

// A cache of three sequences' blocks in scrambled order, kept between guards.
struct SmallCache {
  SmallCache(const CacheFormat& format, int32_t kv_heads, int32_t head_dim) {
    layer.type = format.type;
    layer.kv_heads = kv_heads;
    layer.head_dim = head_dim;
    layer.codes = format.codes(head_dim);
    layer.block_stride = 2 * layer.side_bytes();
    bytes = std::make_unique<GuardedBuffer<std::byte>>(kBlocks * layer.block_stride);
    // Keys and values of a block side by side, as a store of several layers would have it.
    layer.keys = bytes->data();
    layer.values = bytes->data() + layer.side_bytes();
  }
  static constexpr int kBlocks = 12;
  KvLayer layer;
  std::unique_ptr<GuardedBuffer<std::byte>> bytes;

  // What differs from the cache that is right, or "".
  std::string difference(const SmallCache& expected) const {
    if (!bytes->damage().empty()) return bytes->damage();
    for (size_t i = 0; i < bytes->size(); ++i) {
      if (bytes->data()[i] != expected.bytes->data()[i]) return fmt::format("byte {} differs", i);
    }
    return "";
  }
};

StepRows append_rows(int count) {
  StepRows step;
  step.block_tables = {3, 0, 11, 7, 1, 5, 9, 2, 10, 4, 8, 6};
  step.block_table_stride = 4;
  for (int row = 0; row < count; ++row) {  // three sequences, each in order, across the ends of blocks
    const int position = 50 + 60 * (row % 3) + row / 3;
    step.add(row % 3, position, 0, position + 1);
  }
  return step;
}

TEST_P(RowKernels, KvAppendStoresTheReferencesBytes) {
  for (const CacheFormat& format : kCacheFormats) {
    for (int32_t head_dim : {8, 24, 64, 80, 128}) {
      for (int rows : kRowCounts) {
        const StepRows step = append_rows(rows);
        const StepInput input = step.input();
        std::vector<float> k = random_values(rows * 2 * head_dim, 10),
                           v = random_values(rows * 2 * head_dim, 11);
        k[0] = std::numeric_limits<float>::quiet_NaN();  // stays NaN
        k[1] = std::bit_cast<float>(0x7F800001u);        // NaN in the low half only
        k[2] = 3.4e38f;                                  // rounds to infinity
        k[3] = std::bit_cast<float>(0x3F808000u);        // ties to even, down
        k[4] = std::bit_cast<float>(0x3F818000u);        // ties to even, up
        k[5] = -1e-40f;
        SmallCache expected(format, 2, head_dim);
        one_.run(reference_kernels().kv_append, KvAppendArgs{&input, expected.layer, k.data(), v.data()});
        for (TestTeam* team : {&one_, &two_, &four_}) {
          SmallCache actual(format, 2, head_dim);
          team->run(table().kv_append, KvAppendArgs{&input, actual.layer, k.data(), v.data()});
          ASSERT_EQ(actual.difference(expected), "") << format.name() << ", head_dim " << head_dim;
        }
      }
    }
  }
}

TEST_P(RowKernels, RopeAppendEqualsTheUnfusedOps) {
  for (const CacheFormat& format : kCacheFormats) {
    for (const RopeShape& shape : kRopeShapes) {
      for (int32_t rows : kRowCounts) {
        const int32_t kv_heads = 2, heads = 2 * shape.heads;
        const StepRows step = append_rows(rows);
        const StepInput input = step.input();
        const int64_t q_size = rows * heads * shape.head_dim, k_size = rows * kv_heads * shape.head_dim;
        const std::vector<float> q = random_values(q_size, 12), k = random_values(k_size, 13),
                                 v = random_values(k_size, 14), angles = random_angles(rows, shape.rotated);
        RopeArgs rope_q{&rows,           heads,         shape.head_dim, shape.rotated, shape.layout,
                        shape.magnitude, angles.data(), q.data(),       nullptr};
        RopeArgs rope_k = rope_q;
        rope_k.heads = kv_heads;
        rope_k.x = k.data();

        std::vector<float> rotated_k(k_size), expected_q(q_size);
        SmallCache expected(format, kv_heads, shape.head_dim);
        rope_q.out = expected_q.data();
        one_.run(table().rope, rope_q);
        rope_k.out = rotated_k.data();
        one_.run(table().rope, rope_k);
        one_.run(table().kv_append, KvAppendArgs{&input, expected.layer, rotated_k.data(), v.data()});

        rope_k.out = nullptr;
        for (TestTeam* team : {&one_, &two_, &four_}) {
          SmallCache actual(format, kv_heads, shape.head_dim);
          const std::vector<float> out = run_guarded(rows, heads * shape.head_dim, [&](float* to) {
            rope_q.out = to;
            team->run(table().rope_append, RopeAppendArgs{&input, rope_q, rope_k, v.data(), actual.layer});
          });
          const Verdict verdict = compare_bits(out, expected_q);
          ASSERT_TRUE(verdict.ok) << verdict.message;
          ASSERT_EQ(actual.difference(expected), "") << format.name() << ", head_dim " << shape.head_dim;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::testing
