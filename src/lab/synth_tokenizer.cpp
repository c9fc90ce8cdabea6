#include "lab/synth_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/byte_alphabet.h"

namespace rafter::lab {
namespace {

using nlohmann::json;

// Common English pairs; Ġ is the space.
constexpr const char* kMerges[] = {"Ġ t", "h e", "i n", "e r", "a n", "o n", "Ġ a", "Ġt he"};

const SynthMarker* find_marker(const SynthTokens& tokens, int32_t id) {
  for (const SynthMarker& marker : tokens.markers) {
    if (marker.id == id) return &marker;
  }
  return nullptr;
}

const std::string& marker_text(const SynthTokens& tokens, int32_t id) {
  const SynthMarker* marker = find_marker(tokens, id);
  RAFTER_CHECK(marker != nullptr, "token {} is no marker", id);
  return marker->text;
}

// As tokenizer.json and tokenizer_config.json describe an added token.
json added_token(const SynthMarker& marker) {
  return {{"content", marker.text}, {"lstrip", false},      {"normalized", false},
          {"rstrip", false},        {"single_word", false}, {"special", marker.special}};
}

json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}

json post_processor(const SynthTokens& tokens) {
  if (!tokens.adds_bos) return byte_level(false);
  const std::string& bos = marker_text(tokens, tokens.bos);
  const auto special = [&](int segment) {
    return json{{"SpecialToken", {{"id", bos}, {"type_id", segment}}}};
  };
  const auto sequence = [](const char* name, int segment) {
    return json{{"Sequence", {{"id", name}, {"type_id", segment}}}};
  };
  const json entry = {{"id", bos}, {"ids", json::array({tokens.bos})}, {"tokens", json::array({bos})}};
  return {{"type", "TemplateProcessing"},
          {"single", json::array({special(0), sequence("A", 0)})},
          {"pair", json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
          {"special_tokens", json{{bos, entry}}}};
}

}  // namespace

std::vector<std::string> synth_merges() { return {std::begin(kMerges), std::end(kMerges)}; }

std::vector<std::string> synth_pieces(const SynthShape& shape) {
  std::vector<std::string> pieces(static_cast<size_t>(shape.vocabulary));
  for (const SynthMarker& marker : shape.tokens.markers)
    pieces.at(static_cast<size_t>(marker.id)) = marker.text;
  std::vector<std::string> words;  // to be placed first
  for (int byte = 0; byte < 256; ++byte)
    words.push_back(text::bytes_to_alphabet(std::string(1, static_cast<char>(byte))));
  for (std::string merge : synth_merges()) words.push_back(merge.erase(merge.find(' '), 1));
  size_t next = 0;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].empty()) continue;
    pieces[id] = next < words.size() ? words[next++] : text::bytes_to_alphabet(fmt::format(" w{}", id));
  }
  RAFTER_CHECK(next == words.size(), "a vocabulary of {} has no room for the bytes", shape.vocabulary);
  return pieces;
}

std::string tokenizer_json(const SynthShape& shape) {
  const std::vector<std::string> pieces = synth_pieces(shape);
  json vocabulary = json::object();
  for (size_t id = 0; id < pieces.size(); ++id) vocabulary[pieces[id]] = id;
  json merges = json::array();
  for (const std::string& merge : synth_merges()) merges.push_back(merge);
  json added = json::array();
  for (const SynthMarker& marker : shape.tokens.markers) {
    added.push_back(added_token(marker));
    added.back()["id"] = marker.id;
  }
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", std::move(vocabulary)},
                      {"merges", std::move(merges)}};
  const json document = {{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", std::move(added)},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level(true)},
                         {"post_processor", post_processor(shape.tokens)},
                         {"decoder", byte_level(true)},
                         {"model", std::move(model)}};
  return document.dump() + "\n";
}

std::string tokenizer_config_json(const SynthShape& shape) {
  const SynthTokens& tokens = shape.tokens;
  json added = json::object();
  for (const SynthMarker& marker : tokens.markers) added[std::to_string(marker.id)] = added_token(marker);
  const json document = {{"added_tokens_decoder", std::move(added)},
                         {"bos_token", marker_text(tokens, tokens.bos)},
                         {"chat_template", tokens.chat_template},
                         {"clean_up_tokenization_spaces", false},
                         {"eos_token", marker_text(tokens, tokens.eos)},
                         {"model_max_length", shape.max_positions},
                         {"pad_token", marker_text(tokens, tokens.pad)},
                         {"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"unk_token", nullptr}};
  return document.dump(2) + "\n";
}

void put_gguf_tokenizer(const SynthShape& shape, format::GgufWriter& writer) {
  enum : int32_t { normal = 1, control = 3, user_defined = 4 };  // GGUF's token types
  const SynthTokens& tokens = shape.tokens;
  std::vector<int32_t> types(static_cast<size_t>(shape.vocabulary), normal);
  for (const SynthMarker& marker : tokens.markers)
    types[static_cast<size_t>(marker.id)] = marker.special ? control : user_defined;
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "gpt-2");
  writer.set_strings("tokenizer.ggml.tokens", synth_pieces(shape));
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_strings("tokenizer.ggml.merges", synth_merges());
  writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(tokens.bos));
  writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(tokens.eos));
  writer.set_u32("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(tokens.pad));
  writer.set_bool("tokenizer.ggml.add_bos_token", tokens.adds_bos);
  writer.set_string("tokenizer.chat_template", tokens.chat_template);
}

}  // namespace rafter::lab
