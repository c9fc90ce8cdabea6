// Planted faults that the codec comparer must catch.
#include <functional>

#include <gtest/gtest.h>

#include "tests/support/codec_vectors.h"

namespace rafter::tensor {
namespace {

using testing::compare_codecs;

bool any_names(const std::vector<std::string>& wrong, const std::string& name) {
  for (const std::string& item : wrong) {
    if (item.find(name) != std::string::npos) return true;
  }
  return false;
}

// A decoder that is right except that a fault changed the bytes it reads.
testing::Decoder decoder_reading(const std::function<void(EncodedMatrix&)>& fault) {
  return [fault](const MatrixView& view, int64_t r, std::span<float> out) {
    const auto copy = [](const std::byte* data, int64_t bytes) {
      return data == nullptr ? std::vector<std::byte>{} : std::vector<std::byte>(data, data + bytes);
    };
    EncodedMatrix matrix{view.format,
                         view.rows,
                         view.columns,
                         copy(view.data, view.rows * view.format.row_bytes(view.columns)),
                         copy(view.scales, view.rows * view.format.scale_row_bytes(view.columns)),
                         copy(view.biases, view.rows * view.format.bias_row_bytes(view.columns))};
    fault(matrix);
    decode_row(matrix.view(), r, out);
  };
}

std::byte swap_nibbles(std::byte byte) { return byte << 4 | byte >> 4; }

TEST(CodecMutants, SwappedNibbles) {
  const auto wrong =
      compare_codecs(decoder_reading([](EncodedMatrix& matrix) {
                       const size_t d = matrix.format.kind == FormatKind::q4_0 ? 18 : 20;
                       if (matrix.format.kind != FormatKind::q4_0 && matrix.format.kind != FormatKind::q4_1)
                         return;
                       for (size_t i = 0; i < matrix.data.size(); ++i) {
                         if (i % d >= d - 16) matrix.data[i] = swap_nibbles(matrix.data[i]);
                       }
                     }),
                     encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode q4_0"));
  EXPECT_TRUE(any_names(wrong, "decode q4_1"));
  EXPECT_FALSE(any_names(wrong, "q8_0"));
}

// Nibbles as neighbours (2j, 2j + 1) instead of halves (j, j + 16).
TEST(CodecMutants, NeighbouringNibbles) {
  const auto wrong = compare_codecs(
      [](const MatrixView& view, int64_t r, std::span<float> out) {
        std::vector<float> right(out.size());
        decode_row(view, r, right);
        std::copy(right.begin(), right.end(), out.begin());
        if (view.format.kind != FormatKind::q4_0) return;
        for (size_t e = 0; e < out.size(); ++e) out[e / 32 * 32 + (e % 16 * 2 + e % 32 / 16)] = right[e];
      },
      encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode q4_0"));
}

TEST(CodecMutants, MostSignificantBitsFirst) {
  const auto wrong = compare_codecs(decoder_reading([](EncodedMatrix& matrix) {
                                      if (matrix.format.kind != FormatKind::affine || matrix.format.bits != 4)
                                        return;
                                      for (std::byte& byte : matrix.data) byte = swap_nibbles(byte);
                                    }),
                                    encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode affine:4"));
}

TEST(CodecMutants, ScalesAndBiasesExchanged) {
  const auto wrong = compare_codecs(decoder_reading([](EncodedMatrix& matrix) {
                                      if (matrix.format.kind == FormatKind::affine)
                                        std::swap(matrix.scales, matrix.biases);
                                    }),
                                    encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode affine:2"));
  EXPECT_TRUE(any_names(wrong, "decode affine:8"));
}

TEST(CodecMutants, SixBitHighPartsOfTheOtherHalf) {
  const auto wrong = compare_codecs(decoder_reading([](EncodedMatrix& matrix) {
                                      if (matrix.format.kind != FormatKind::q6_k) return;
                                      std::swap_ranges(matrix.data.begin() + 128, matrix.data.begin() + 160,
                                                       matrix.data.begin() + 160);
                                    }),
                                    encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode q6_k"));
}

// Each format's own trap: one plausible misreading each.
TEST(CodecMutants, MisreadBlocks) {
  struct Fault {
    FormatKind kind;
    const char* name;
    std::function<void(std::byte* block)> damage;
  };
  const auto swap_bytes = [](size_t a, size_t b, size_t count) {
    return [=](std::byte* block) { std::swap_ranges(block + a, block + a + count, block + b); };
  };
  const auto swap_nibbles_of = [](size_t begin, size_t count) {
    return [=](std::byte* block) {
      for (size_t i = begin; i < begin + count; ++i) block[i] = swap_nibbles(block[i]);
    };
  };
  const std::vector<Fault> faults = {
      {FormatKind::q5_0, "the fifth bits of the other half", swap_bytes(2, 4, 2)},
      {FormatKind::q5_1, "the fifth bits of the other half", swap_bytes(4, 6, 2)},
      {FormatKind::q5_1, "d and m exchanged", swap_bytes(0, 2, 2)},
      {FormatKind::q2_k, "scales and minima exchanged", swap_nibbles_of(0, 16)},
      {FormatKind::q2_k, "d and dmin exchanged", swap_bytes(80, 82, 2)},
      {FormatKind::q3_k, "high bits of the other group", swap_bytes(0, 16, 16)},
      {FormatKind::q3_k, "low bits of the scales exchanged", swap_nibbles_of(96, 8)},
      {FormatKind::q4_k, "d and dmin exchanged", swap_bytes(0, 2, 2)},
      {FormatKind::q4_k, "scales and minima exchanged", swap_bytes(4, 8, 4)},
      {FormatKind::q4_k, "odd and even groups exchanged", swap_nibbles_of(16, 128)},
      {FormatKind::q5_k, "fifth bits behind the codes", swap_bytes(16, 48, 32)},
      {FormatKind::iq4_nl, "halves exchanged", swap_nibbles_of(2, 16)},
      {FormatKind::iq4_xs, "scales of odd and even groups exchanged", swap_nibbles_of(4, 4)},
      {FormatKind::mxfp4_block, "twice the scale",
       [](std::byte* block) { block[0] = static_cast<std::byte>(std::to_integer<int>(block[0]) + 1); }}};
  for (const Fault& fault : faults) {
    const auto wrong = compare_codecs(
        decoder_reading([&](EncodedMatrix& matrix) {
          if (matrix.format.kind != fault.kind) return;
          const auto bytes = static_cast<size_t>(matrix.format.row_bytes(matrix.format.block_columns()));
          for (size_t at = 0; at < matrix.data.size(); at += bytes) fault.damage(matrix.data.data() + at);
        }),
        encode_matrix);
    EXPECT_TRUE(any_names(wrong, "decode " + NumberFormat::block(fault.kind).name())) << fault.name;
  }
}

TEST(CodecMutants, MisreadSmallFloats) {
  for (FormatKind kind : {FormatKind::mxfp4, FormatKind::mxfp8, FormatKind::nvfp4}) {
    const std::string name = "decode " + NumberFormat::floating(kind).name();
    // GGUF's half of the scale; bits of a code from the other end of the byte.
    EXPECT_TRUE(any_names(compare_codecs(
                              [&](const MatrixView& view, int64_t r, std::span<float> out) {
                                decode_row(view, r, out);
                                for (float& value : out) value /= view.format.kind == kind ? 2 : 1;
                              },
                              encode_matrix),
                          name));
    EXPECT_TRUE(any_names(compare_codecs(decoder_reading([&](EncodedMatrix& matrix) {
                                           if (matrix.format.kind != kind) return;
                                           for (std::byte& byte : matrix.data) byte = swap_nibbles(byte);
                                         }),
                                         encode_matrix),
                          name));
  }
}

TEST(CodecMutants, Bf16SumInsteadOfFp32) {
  const auto wrong = compare_codecs(
      [](const MatrixView& view, int64_t r, std::span<float> out) {
        decode_row(view, r, out);
        if (view.format.kind != FormatKind::affine) return;
        for (float& value : out) value = round_to_bf16(value);
      },
      encode_matrix);
  EXPECT_TRUE(any_names(wrong, "decode affine"));
}

// Codes chosen with the stored scale and bias instead of the unrounded ones; scales made positive.
TEST(CodecMutants, QuantizerVariants) {
  const auto requantised = compare_codecs(
      decode_row, [](NumberFormat format, int64_t rows, int64_t columns, std::span<const float> values) {
        EncodedMatrix once = encode_matrix(format, rows, columns, values);
        std::vector<float> decoded(values.size());
        decode_row(once.view(), 0, decoded);
        return encode_matrix(format, rows, columns, decoded);
      });
  EXPECT_TRUE(any_names(requantised, "encode affine"));
  const auto truncated = compare_codecs(
      decode_row, [](NumberFormat format, int64_t rows, int64_t columns, std::span<const float> values) {
        std::vector<float> nudged(values.begin(), values.end());
        for (float& value : nudged) value *= 1.01f;
        return encode_matrix(format, rows, columns, nudged);
      });
  EXPECT_TRUE(any_names(truncated, "encode q4_0"));
  EXPECT_TRUE(any_names(truncated, "encode q8_0"));
}

}  // namespace
}  // namespace rafter::tensor
