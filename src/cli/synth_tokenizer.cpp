#include "cli/synth_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "text/byte_alphabet.h"

namespace rafter::cli {
namespace {

using Json = nlohmann::ordered_json;

Json added_token(int32_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// Puts BOS in front, as the Llama 3 tokenizers do.
Json bos_post_processor(const SynthShape& shape, const SynthTokenizer& tokenizer) {
  const Json bos = {{"SpecialToken", {{"id", tokenizer.bos}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({bos, text})},
          {"pair", Json::array({bos, text, second})},
          {"special_tokens",
           {{tokenizer.bos, {{"id", tokenizer.bos}, {"ids", {shape.bos}}, {"tokens", {tokenizer.bos}}}}}}};
}

}  // namespace

SynthTokenizer synth_tokenizer(const SynthShape& shape) {
  SynthTokenizer tokenizer;
  tokenizer.eos = "<|endoftext|>";
  tokenizer.bos = shape.bos == shape.eos ? tokenizer.eos : "<|startoftext|>";
  tokenizer.turn_start = "<|im_start|>";
  tokenizer.turn_end = "<|im_end|>";
  tokenizer.pieces.resize(static_cast<size_t>(shape.vocabulary));
  const std::pair<int32_t, std::string> markers[] = {{shape.bos, tokenizer.bos},
                                                     {shape.eos, tokenizer.eos},
                                                     {shape.turn_start, tokenizer.turn_start},
                                                     {shape.turn_end, tokenizer.turn_end}};
  for (const auto& [id, content] : markers) tokenizer.pieces[static_cast<size_t>(id)] = content;
  int byte = 0;
  for (size_t id = 0; id < tokenizer.pieces.size(); ++id) {
    std::string& piece = tokenizer.pieces[id];
    if (!piece.empty()) {
      tokenizer.markers.push_back(static_cast<int32_t>(id));
    } else if (byte < 256) {
      piece = text::bytes_to_alphabet(std::string(1, static_cast<char>(byte++)));
    } else {
      piece = text::bytes_to_alphabet(fmt::format(" w{}", id));
    }
  }
  return tokenizer;
}

std::string synth_chat_template(const SynthTokenizer& tokenizer) {
  return fmt::format(
      "{{% for message in messages %}}{{{{ '{0}' + message['role'] + '\\n' + message['content'] + '{1}\\n' "
      "}}}}"
      "{{% endfor %}}{{% if add_generation_prompt %}}{{{{ '{0}assistant\\n' }}}}{{% endif %}}",
      tokenizer.turn_start, tokenizer.turn_end);
}

std::string synth_tokenizer_json(const SynthShape& shape, const SynthTokenizer& tokenizer) {
  Json vocabulary = Json::object(), added = Json::array();
  for (size_t id = 0; id < tokenizer.pieces.size(); ++id) {
    // ordered_json's operator[] searches its whole vector each time; pushing keeps this linear.
    vocabulary.get_ref<Json::object_t&>().emplace_back(tokenizer.pieces[id], id);
  }
  for (int32_t id : tokenizer.markers)
    added.push_back(added_token(id, tokenizer.pieces[static_cast<size_t>(id)]));
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", shape.adds_bos ? bos_post_processor(shape, tokenizer) : Json(nullptr)},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", Json::array()}}},
  };
  return json.dump() + "\n";
}

std::string synth_tokenizer_config_json(const SynthShape& shape, const SynthTokenizer& tokenizer) {
  const Json json = {{"bos_token", tokenizer.bos},
                     {"eos_token", tokenizer.turn_end},
                     {"clean_up_tokenization_spaces", false},
                     {"model_max_length", shape.max_positions},
                     {"tokenizer_class", "PreTrainedTokenizerFast"}};
  return json.dump(2) + "\n";
}

std::string synth_generation_config_json(const SynthShape& shape) {
  const Json json = {{"bos_token_id", shape.bos},
                     {"eos_token_id", {shape.eos, shape.turn_end}},
                     {"do_sample", true},
                     {"temperature", 0.6},
                     {"top_p", 0.9}};
  return json.dump(2) + "\n";
}

}  // namespace rafter::cli
