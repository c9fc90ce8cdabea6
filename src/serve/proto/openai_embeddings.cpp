#include "serve/proto/openai_embeddings.h"

#include <cstring>

namespace rafter::serve {
namespace {

constexpr size_t kMostInputs = 2048;

base::Result<std::vector<int32_t>> read_ids(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& token : list) {
    const auto id = integer_of(token);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max())
      return field_error("input", "must be a string, token ids, or an array of these");
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

base::Status read_one(const Json& input, EmbeddingsAsk& out) {
  if (input.is_string() && input != "") {
    out.inputs.emplace_back(input.get<std::string>());
    return {};
  }
  if (!input.is_array() || input.empty())
    return field_error("input", "must be a non-empty string, token ids, or an array of these");
  RAFTER_ASSIGN(auto ids, read_ids(input));
  out.inputs.emplace_back(std::move(ids));
  return {};
}

Json vector_json(const std::vector<float>& vector, bool base64) {
  if (!base64) return vector;
  static_assert(std::endian::native == std::endian::little, "the protocol's bytes are little-endian");
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return encode_base64(bytes);
}

}  // namespace

base::Result<EmbeddingsAsk> parse_embeddings(const Json& body) {
  const Fields fields(body);
  EmbeddingsAsk ask;
  const Json* input = fields.find("input");
  if (input == nullptr) return field_error("input", "is required");
  if (input->is_array() && input->size() > kMostInputs)
    return field_error("input", "must have at most 2048 elements");
  if (input->is_array() && !input->empty() && (input->front().is_string() || input->front().is_array())) {
    for (const Json& one : *input) RAFTER_TRY(read_one(one, ask));
  } else {
    RAFTER_TRY(read_one(*input, ask));
  }
  std::string encoding = "float";
  RAFTER_TRY(fields.read("encoding_format", encoding));
  if (encoding != "float" && encoding != "base64")
    return field_error("encoding_format", "must be float or base64");
  ask.base64 = encoding == "base64";
  RAFTER_TRY(fields.read("instruction", ask.instruction));
  RAFTER_TRY(fields.read("dimensions", ask.dimensions, 1));
  RAFTER_TRY(fields.read("model", ask.model));
  return ask;
}

Json embeddings_json(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64,
                     int64_t tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors[i], base64)}});
  }
  return {{"object", "list"},
          {"model", model},
          {"data", std::move(data)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

std::string encode_base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace rafter::serve
