#include "tensor/codec.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tensor/small_float.h"
#include "tests/support/codec_vectors.h"

namespace rafter::tensor {
namespace {

std::vector<NumberFormat> every_format() {
  std::vector<NumberFormat> formats;
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    formats.push_back(NumberFormat::plain(type));
    for (int bits : {2, 3, 4, 5, 6, 8}) {
      for (int group : {32, 64, 128}) formats.push_back(NumberFormat::affine(bits, group, type));
    }
  }
  for (const FormatTraits& traits : all_format_traits()) {
    if (traits.block_columns > 1) formats.push_back(NumberFormat::block(traits.kind));
    if (traits.block_columns == 0 && traits.kind != FormatKind::affine)
      formats.push_back(NumberFormat::floating(traits.kind));
  }
  return formats;
}

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

std::vector<uint32_t> words_of(const EncodedMatrix& matrix) {
  std::vector<uint32_t> words(matrix.data.size() / 4);
  std::memcpy(words.data(), matrix.data.data(), matrix.data.size());
  return words;
}

TEST(Codec, AgreesWithOtherImplementations) {
  EXPECT_GE(testing::read_codec_cases().size(), 20u);
  EXPECT_EQ(testing::compare_codecs(decode_row, encode_matrix), std::vector<std::string>{});
}

TEST(Codec, AgreesWithOtherImplementationsOnMany) {
  if (testing::read_codec_cases(testing::kRandomCases).empty())
    GTEST_SKIP() << "no " << testing::kRandomCases << " (make oracle)";
  EXPECT_EQ(testing::compare_codecs(decode_row, encode_matrix, testing::kRandomCases),
            std::vector<std::string>{});
}

// Every byte, by definition instead of by bits.
TEST(Codec, SmallFloatsAreWhatTheirBitsSay) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    const double power = std::ldexp(1.0, bits - 127);
    EXPECT_EQ(e8m0_to_f32(byte), bits == 255 ? INFINITY : static_cast<float>(power)) << bits;
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    const auto expected = static_cast<float>(bits & 0x80 ? -magnitude : magnitude);
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(e4m3_to_f32(byte)));
      continue;
    }
    EXPECT_EQ(e4m3_to_f32(byte), expected) << bits;
    EXPECT_EQ(f32_to_e4m3(expected), byte) << bits;
  }
  for (uint8_t code = 0; code < 16; ++code) {
    const float value = static_cast<float>(kTwiceE2M1[code]) / 2;
    EXPECT_EQ(f32_to_e2m1(value), code == 8 ? 0 : code);
  }
}

// Codes 0, 1, 2 … 31 (mod 2^bits) as words.
TEST(Codec, AffineCodesAreOneBitstream) {
  const std::vector<std::pair<int, std::vector<uint32_t>>> vectors = {
      {2, {0xe4e4e4e4, 0xe4e4e4e4}},
      {3, {0x88fac688, 0xc688fac6, 0xfac688fa}},
      {4, {0x76543210, 0xfedcba98, 0x76543210, 0xfedcba98}},
      {5, {0x8a418820, 0xc5a92839, 0xca307b9a, 0x38bdab49, 0xffbbcdeb}},
      {6, {0x440c2040, 0xa2481c61, 0x3ce34c2c, 0x544d2450, 0xa6585d65, 0x7de75c6d}},
      {8, {0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c, 0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c}}};
  for (const auto& [bits, words] : vectors) {
    const float scale = 1, bias = 0;
    MatrixView view{NumberFormat::affine(bits, 32, DType::f32),
                    1,
                    32,
                    reinterpret_cast<const std::byte*>(words.data()),
                    reinterpret_cast<const std::byte*>(&scale),
                    reinterpret_cast<const std::byte*>(&bias)};
    std::vector<float> out(32);
    decode_row(view, 0, out);
    for (int k = 0; k < 32; ++k) EXPECT_EQ(out[k], static_cast<float>(k % (1 << bits))) << bits << " " << k;
  }
}

// w_k = (k − 12) / 16.
TEST(Codec, AffineQuantizerSnapsTheEdge) {
  struct Case {
    int bits;
    float scale;
    std::vector<uint32_t> words;
    float worst;
  };
  const std::vector<Case> cases = {
      {2, -0.59375f, {0xaaaaffff, 0x00155556}, 0.28125f},
      {3, -0.296875f, {0x2db6edb7, 0x26db7249, 0x00124949}, 0.140625f},
      {4, std::bit_cast<float>(0xbe071c72u), {0xbccddeef, 0x88999aab, 0x44556677, 0x00112233}, 0.0625f},
      {8,
       std::bit_cast<float>(0xbbf96f97u),
       {0xe6eef6ff, 0xc5cdd5de, 0xa4acb5bd, 0x838c949c, 0x636b737b, 0x424a525a, 0x21293139, 0x00081019},
       0.003606f}};
  std::vector<float> values(32), out(32);
  for (int k = 0; k < 32; ++k) values[k] = static_cast<float>(k - 12) / 16;
  for (const Case& item : cases) {
    const auto matrix = encode_matrix(NumberFormat::affine(item.bits, 32, DType::f32), 1, 32, values);
    EXPECT_EQ(words_of(matrix), item.words) << item.bits;
    EXPECT_EQ(load_float(DType::f32, matrix.scales.data(), 0), item.scale) << item.bits;
    EXPECT_EQ(load_float(DType::f32, matrix.biases.data(), 0), 1.1875f) << item.bits;
    decode_row(matrix.view(), 0, out);
    EXPECT_EQ(out[12], 0.0f);
    float worst = 0;
    for (int k = 0; k < 32; ++k) worst = std::max(worst, std::fabs(out[k] - values[k]));
    EXPECT_NEAR(worst, item.worst, 1e-6f) << item.bits;
  }
}

TEST(Codec, EveryFormatKeepsRowsApartAtAnyAlignment) {
  constexpr int64_t kRows = 3, kColumns = 512;
  const auto values = random_values(kRows * kColumns, 1);
  for (const NumberFormat& format : every_format()) {
    const auto matrix = encode_matrix(format, kRows, kColumns, values);
    ASSERT_EQ(static_cast<int64_t>(matrix.data.size() + matrix.scales.size() + matrix.biases.size()),
              format.matrix_bytes(kRows, kColumns));
    // The same bytes at odd addresses, each array in an allocation of exactly its size.
    MatrixView odd = matrix.view();
    std::vector<std::vector<std::byte>> copies;
    const auto shifted = [&](const std::vector<std::byte>& bytes) -> const std::byte* {
      if (bytes.empty()) return nullptr;
      auto& copy = copies.emplace_back(bytes.size() + 1);
      std::memcpy(copy.data() + 1, bytes.data(), bytes.size());
      return copy.data() + 1;
    };
    odd.data = shifted(matrix.data);
    odd.scales = shifted(matrix.scales);
    odd.biases = shifted(matrix.biases);
    std::vector<float> out(kColumns), again(kColumns);
    for (int64_t r = 0; r < kRows; ++r) {
      decode_row(matrix.view(), r, out);
      decode_row(odd, r, again);
      EXPECT_EQ(out, again) << format.name();
      // A row encoded alone equals the row in the matrix.
      const auto alone =
          encode_matrix(format, 1, kColumns, std::span(values).subspan(r * kColumns, kColumns));
      decode_row(alone.view(), 0, again);
      EXPECT_EQ(out, again) << format.name();
    }
  }
}

// The largest error each format may make, from its step.
TEST(Codec, EncodingIsAsCloseAsTheFormatAllows) {
  constexpr int64_t kColumns = 4096;
  const auto values = random_values(kColumns, 2);
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  for (const NumberFormat& format : every_format()) {
    double bound = 0;
    switch (format.kind) {
      case FormatKind::f32:
        break;
      case FormatKind::f16:
        bound = largest * 0x1p-11;
        break;
      case FormatKind::bf16:
        bound = largest * 0x1p-8;
        break;
      case FormatKind::affine:  // one step (the snapped edge may clip), and the rounding of scale and bias
        bound = 2 * largest / ((1 << format.bits) - 1) * 1.01 +
                (format.scale_type == DType::f32 ? 0 : largest * 0x1p-6);
        break;
      case FormatKind::q4_0:
        bound = largest / 8 * 1.01;
        break;
      case FormatKind::q4_1:
        bound = 2 * largest / 15 / 2 * 1.05;
        break;
      case FormatKind::q5_0:
        bound = largest / 16 * 1.01;
        break;
      case FormatKind::q5_1:
        bound = 2 * largest / 31 / 2 * 1.05;
        break;
      case FormatKind::q8_0:
        bound = largest / 127 / 2 * 1.1;
        break;
      case FormatKind::q2_k:  // half a step, and half a step of the scale and of the minimum
        bound = 2 * largest / 3 / 2 + 4 * largest / 30 * 1.05;
        break;
      case FormatKind::q3_k:  // one step: the grid ends at 3
        bound = largest / 4 * 1.1;
        break;
      case FormatKind::q4_k:
        bound = 2 * largest / 15 / 2 + 3 * largest / 126;
        break;
      case FormatKind::q5_k:
        bound = 2 * largest / 31 / 2 + 3 * largest / 126;
        break;
      case FormatKind::q6_k:
        bound = largest / 32 * 1.1;
        break;
      case FormatKind::iq4_nl:  // the grid ends at 113 of 127
        bound = largest * 15 / 127;
        break;
      case FormatKind::iq4_xs:
        bound = largest * 16 / 127;
        break;
      case FormatKind::mxfp4:
      case FormatKind::mxfp4_block:  // a scale may be too small by a half: 6 of 8
        bound = largest / 3;
        break;
      case FormatKind::mxfp8:
        bound = largest / 3;
        break;
      case FormatKind::nvfp4:
        bound = largest / 5;
        break;
    }
    const auto matrix = encode_matrix(format, 1, kColumns, values);
    std::vector<float> out(kColumns);
    decode_row(matrix.view(), 0, out);
    double worst = 0;
    for (int64_t i = 0; i < kColumns; ++i) worst = std::max<double>(worst, std::fabs(out[i] - values[i]));
    EXPECT_LE(worst, bound) << format.name();
    EXPECT_EQ(worst > 0, format.kind != FormatKind::f32) << format.name();
  }
}

TEST(Codec, ZerosAndNonFiniteValuesDoNotTrap) {
  std::vector<float> zeros(256, 0.0f), out(256);
  std::vector<float> wild(256, std::nanf(""));
  wild[3] = INFINITY;
  wild[40] = -INFINITY;
  wild[70] = 1e38f;
  for (const NumberFormat& format : every_format()) {
    decode_row(encode_matrix(format, 1, 256, zeros).view(), 0, out);
    for (float value : out) EXPECT_EQ(value, 0.0f) << format.name();
    decode_row(encode_matrix(format, 1, 256, wild).view(), 0, out);
  }
}

}  // namespace
}  // namespace rafter::tensor
