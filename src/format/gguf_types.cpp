#include "format/gguf_types.h"

#include <array>

namespace rafter::format {
namespace {

using tensor::DType;
using tensor::FormatKind;
constexpr auto kNone = std::nullopt;
constexpr std::array<GgufType, 23> kTypes = {{
    {0, "F32", 1, 4, DType::f32, kNone},
    {1, "F16", 1, 2, DType::f16, kNone},
    {2, "Q4_0", 32, 18, kNone, FormatKind::q4_0},
    {3, "Q4_1", 32, 20, kNone, FormatKind::q4_1},
    {6, "Q5_0", 32, 22, kNone, FormatKind::q5_0},
    {7, "Q5_1", 32, 24, kNone, FormatKind::q5_1},
    {8, "Q8_0", 32, 34, kNone, FormatKind::q8_0},
    {10, "Q2_K", 256, 84, kNone, FormatKind::q2_k},
    {11, "Q3_K", 256, 110, kNone, FormatKind::q3_k},
    {12, "Q4_K", 256, 144, kNone, FormatKind::q4_k},
    {13, "Q5_K", 256, 176, kNone, FormatKind::q5_k},
    {14, "Q6_K", 256, 210, kNone, FormatKind::q6_k},
    {15, "Q8_K", 256, 292, kNone, kNone},
    {20, "IQ4_NL", 32, 18, kNone, FormatKind::iq4_nl},
    {23, "IQ4_XS", 256, 136, kNone, FormatKind::iq4_xs},
    {24, "I8", 1, 1, DType::i8, kNone},
    {25, "I16", 1, 2, DType::i16, kNone},
    {26, "I32", 1, 4, DType::i32, kNone},
    {27, "I64", 1, 8, DType::i64, kNone},
    {28, "F64", 1, 8, DType::f64, kNone},
    {30, "BF16", 1, 2, DType::bf16, kNone},
    {39, "MXFP4", 32, 17, kNone, FormatKind::mxfp4_block},
    {9, "Q8_1", 32, 36, kNone, kNone},
}};

}  // namespace

const GgufType* find_gguf_type(uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const GgufType* find_gguf_type(tensor::NumberFormat format) {
  for (const GgufType& type : kTypes) {
    const bool plain = (format.kind == FormatKind::f32 && type.dtype == DType::f32) ||
                       (format.kind == FormatKind::f16 && type.dtype == DType::f16) ||
                       (format.kind == FormatKind::bf16 && type.dtype == DType::bf16);
    if (plain || type.block_format == format.kind) return &type;
  }
  return nullptr;
}

std::string_view gguf_type_remark(uint32_t id) {
  if (id == 34 || id == 35) return "a ternary type (TQ1_0, TQ2_0)";
  if (id == 40) return "NVFP4";
  if (id == 4 || id == 5 || (id >= 31 && id <= 38)) return "GGUF dropped this type";
  if ((id >= 16 && id <= 19) || id == 21 || id == 22 || id == 29) return "a codebook type (IQ1, IQ2, IQ3)";
  if (id >= 97) return "a type of the ik_llama.cpp fork";
  return "";
}

}  // namespace rafter::format
