#include "tensor/format_table.h"

#include <array>

#include "base/check.h"
#include "tensor/blocks.h"

namespace rafter::tensor {
namespace {

// A GGUF format: all of a row is one array of blocks.
template <class Block, int kColumns, auto decode, auto encode>
constexpr FormatTraits blocks(FormatKind kind, std::string_view name) {
  return {kind,
          name,
          kColumns,
          sizeof(Block),
          [](const NumberFormat&, codec::StoredRow<const std::byte> row, std::span<float> out) {
            decode(row.data, out);
          },
          [](const NumberFormat&, std::span<const float> values, codec::StoredRow<std::byte> row) {
            encode(values, row.data);
          }};
}

template <DType kType, typename Element>
constexpr FormatTraits plain(FormatKind kind, std::string_view name) {
  return {kind,
          name,
          1,
          sizeof(Element),
          [](const NumberFormat&, codec::StoredRow<const std::byte> row, std::span<float> out) {
            codec::decode_plain(kType, row.data, out);
          },
          [](const NumberFormat&, std::span<const float> values, codec::StoredRow<std::byte> row) {
            codec::encode_plain(kType, values, row.data);
          }};
}

using enum FormatKind;
constexpr std::array kTraits = {
    plain<DType::f32, float>(f32, "f32"),
    plain<DType::f16, uint16_t>(f16, "f16"),
    plain<DType::bf16, uint16_t>(bf16, "bf16"),
    FormatTraits{affine, "affine", 0, 0, codec::decode_affine, codec::encode_affine},
    FormatTraits{mxfp4, "mxfp4", 0, 0, codec::decode_mxfp4, codec::encode_mxfp4},
    FormatTraits{mxfp8, "mxfp8", 0, 0, codec::decode_mxfp8, codec::encode_mxfp8},
    FormatTraits{nvfp4, "nvfp4", 0, 0, codec::decode_nvfp4, codec::encode_nvfp4},
    blocks<Q4_0Block, 32, codec::decode_q4_0, codec::encode_q4_0>(q4_0, "q4_0"),
    blocks<Q4_1Block, 32, codec::decode_q4_1, codec::encode_q4_1>(q4_1, "q4_1"),
    blocks<Q5_0Block, 32, codec::decode_q5_0, codec::encode_q5_0>(q5_0, "q5_0"),
    blocks<Q5_1Block, 32, codec::decode_q5_1, codec::encode_q5_1>(q5_1, "q5_1"),
    blocks<Q8_0Block, 32, codec::decode_q8_0, codec::encode_q8_0>(q8_0, "q8_0"),
    blocks<Q2_KBlock, 256, codec::decode_q2_k, codec::encode_q2_k>(q2_k, "q2_k"),
    blocks<Q3_KBlock, 256, codec::decode_q3_k, codec::encode_q3_k>(q3_k, "q3_k"),
    blocks<Q4_KBlock, 256, codec::decode_q4_k, codec::encode_q4_k>(q4_k, "q4_k"),
    blocks<Q5_KBlock, 256, codec::decode_q5_k, codec::encode_q5_k>(q5_k, "q5_k"),
    blocks<Q6_KBlock, 256, codec::decode_q6_k, codec::encode_q6_k>(q6_k, "q6_k"),
    blocks<Iq4NlBlock, 32, codec::decode_iq4_nl, codec::encode_iq4_nl>(iq4_nl, "iq4_nl"),
    blocks<Iq4XsBlock, 256, codec::decode_iq4_xs, codec::encode_iq4_xs>(iq4_xs, "iq4_xs"),
    blocks<Mxfp4Block, 32, codec::decode_mxfp4_block, codec::encode_mxfp4_block>(mxfp4_block, "mxfp4_block"),
};

constexpr bool in_order() {
  for (size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].kind != static_cast<FormatKind>(i)) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const FormatTraits& format_traits(FormatKind kind) {
  const auto index = static_cast<size_t>(kind);
  RAFTER_CHECK(index < kTraits.size(), "number format {}", index);
  return kTraits[index];
}

std::span<const FormatTraits> all_format_traits() { return kTraits; }

}  // namespace rafter::tensor
