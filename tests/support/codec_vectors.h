// The codecs' comparer: runs the cases that oracle/codec_vectors.py wrote from other implementations through
// a decoder and an encoder and reports each case whose bytes differ.
#pragma once

#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tensor/codec.h"
#include "tensor/format_table.h"

namespace rafter::testing {

struct CodecCase {
  bool decodes = false;  // else encodes
  std::string name;      // "q4_0", "affine:4:64:bf16"
  tensor::EncodedMatrix stored;
  std::vector<float> values;
};

inline std::vector<std::byte> bytes_from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline tensor::NumberFormat format_from_name(std::string name) {
  using tensor::DType;
  for (const tensor::FormatTraits& traits : tensor::all_format_traits()) {
    if (traits.name != name) continue;
    return traits.block_columns == 0 ? tensor::NumberFormat::floating(traits.kind)
                                     : tensor::NumberFormat::block(traits.kind);
  }
  for (char& c : name) {
    if (c == ':') c = ' ';
  }
  std::istringstream fields(name);
  std::string word, type;
  int bits = 0, group = 0;
  fields >> word >> bits >> group >> type;
  return tensor::NumberFormat::affine(bits, group,
                                      type == "f32"   ? DType::f32
                                      : type == "f16" ? DType::f16
                                                      : DType::bf16);
}

inline constexpr const char* kCommittedCases = RAFTER_SOURCE_DIR "/tests/fixtures/codec_vectors.txt";
// Many more, where the oracle has been run.
inline constexpr const char* kRandomCases = RAFTER_SOURCE_DIR "/build/oracle/codec/vectors.txt";

inline std::vector<CodecCase> read_codec_cases(const char* path = kCommittedCases) {
  std::vector<CodecCase> cases;
  std::ifstream file(path);
  std::string kind, name, field[4];
  int64_t columns = 0;
  while (file >> kind >> name >> columns >> field[0] >> field[1] >> field[2] >> field[3]) {
    CodecCase item;
    item.decodes = kind == "decode";
    item.name = name;
    const size_t data = item.decodes ? 0 : 1;
    item.stored = {format_from_name(name),
                   1,
                   columns,
                   bytes_from_hex(field[data]),
                   bytes_from_hex(field[data + 1]),
                   bytes_from_hex(field[data + 2])};
    const auto values = bytes_from_hex(field[item.decodes ? 3 : 0]);
    item.values.resize(values.size() / 4);
    std::memcpy(item.values.data(), values.data(), item.values.size() * 4);
    cases.push_back(std::move(item));
  }
  return cases;
}

using Decoder = std::function<void(const tensor::MatrixView&, int64_t, std::span<float>)>;
using Encoder =
    std::function<tensor::EncodedMatrix(tensor::NumberFormat, int64_t, int64_t, std::span<const float>)>;

// Names of the cases that do not match bit for bit (a zero's sign is ignored when decoding).
inline std::vector<std::string> compare_codecs(const Decoder& decode, const Encoder& encode,
                                               const char* path = kCommittedCases) {
  std::vector<std::string> wrong;
  for (const CodecCase& item : read_codec_cases(path)) {
    bool equal = true;
    if (item.decodes) {
      std::vector<float> out(item.values.size(), -1e30f);
      decode(item.stored.view(), 0, out);
      for (size_t i = 0; i < out.size(); ++i) equal = equal && out[i] == item.values[i];
    } else {
      const auto made = encode(item.stored.format, 1, item.stored.columns, item.values);
      equal = made.data == item.stored.data && made.scales == item.stored.scales &&
              made.biases == item.stored.biases;
    }
    if (!equal) wrong.push_back((item.decodes ? "decode " : "encode ") + item.name);
  }
  return wrong;
}

}  // namespace rafter::testing
