#include <algorithm>
#include <set>

#include "decode/text_sources.h"
#include "text/gguf_pre_tokenizer.h"
#include "text/sentencepiece.h"

namespace rafter::decode {
namespace {

// tokenizer.ggml.token_type
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

// Texts that end a turn or a document wherever they are tokens of their own; files often name only one of
// them as eos.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",       "<|im_end|>",     "<|end|>", "<end_of_turn>",
                                          "<|endoftext|>",    "<|eom_id|>",     "<EOT>",   "<turn|>",
                                          "<|tool_response>", "<|end_of_text|>"};
// Some files type chat markers as normal text; they must be found all the same.
constexpr std::string_view kTurnMarkers[] = {"<|im_start|>", "<|start_header_id|>", "<|end_header_id|>",
                                             "<|begin_of_text|>"};

bool is_one_of(std::string_view text, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// The file's metadata with typed access; a key of another type is an error, an absent one is nothing.
class Metadata {
 public:
  explicit Metadata(const format::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  std::string where(const std::string& key) const { return checkpoint_.path() + ": " + key; }

  base::Error bad(const std::string& key, const std::string& what) const {
    return base::Error{base::ErrorCode::invalid_data, what, where(key), ""};
  }

  template <typename T>
  base::Result<const T*> get(const std::string& key, const char* type) const {
    auto found = checkpoint_.gguf_metadata().find(key);
    if (found == checkpoint_.gguf_metadata().end()) return static_cast<const T*>(nullptr);
    const T* value = std::get_if<T>(&found->second.value);
    if (value == nullptr) return bad(key, std::string("not ") + type);
    return value;
  }

  base::Result<const std::string*> string(const std::string& key) const {
    return get<std::string>(key, "a string");
  }
  base::Result<const std::vector<std::string>*> strings(const std::string& key) const {
    return get<std::vector<std::string>>(key, "a list of strings");
  }
  base::Result<bool> boolean(const std::string& key, bool fallback) const {
    RAFTER_ASSIGN(const bool* value, get<bool>(key, "a boolean"));
    return value != nullptr ? *value : fallback;
  }

  // A token id below `count`.
  base::Result<std::optional<int32_t>> token(const std::string& key, size_t count) const {
    auto found = checkpoint_.gguf_metadata().find(key);
    if (found == checkpoint_.gguf_metadata().end()) return std::optional<int32_t>();
    const auto& value = found->second.value;
    uint64_t id = count;
    if (const auto* i = std::get_if<int64_t>(&value); i != nullptr && *i >= 0) id = static_cast<uint64_t>(*i);
    if (const auto* u = std::get_if<uint64_t>(&value)) id = *u;
    if (id >= count) return bad(key, "not the id of a token");
    return std::optional(static_cast<int32_t>(id));
  }

 private:
  const format::Checkpoint& checkpoint_;
};

struct SpecialIds {
  std::optional<int32_t> bos, eos, eot, eom, unknown, padding;
};

base::Result<SpecialIds> read_special_ids(const Metadata& metadata, size_t count) {
  SpecialIds ids;
  RAFTER_ASSIGN(ids.bos, metadata.token("tokenizer.ggml.bos_token_id", count));
  RAFTER_ASSIGN(ids.eos, metadata.token("tokenizer.ggml.eos_token_id", count));
  RAFTER_ASSIGN(ids.eot, metadata.token("tokenizer.ggml.eot_token_id", count));
  RAFTER_ASSIGN(ids.eom, metadata.token("tokenizer.ggml.eom_token_id", count));
  RAFTER_ASSIGN(ids.unknown, metadata.token("tokenizer.ggml.unknown_token_id", count));
  RAFTER_ASSIGN(ids.padding, metadata.token("tokenizer.ggml.padding_token_id", count));
  return ids;
}

// The type of every token; all normal when the file does not say.
base::Result<std::vector<int64_t>> read_token_types(const format::Checkpoint& checkpoint,
                                                    const Metadata& metadata, size_t count) {
  const std::string key = "tokenizer.ggml.token_type";
  std::vector<int64_t> types(count, kNormal);
  auto found = checkpoint.gguf_metadata().find(key);
  if (found == checkpoint.gguf_metadata().end()) return types;
  const auto* array = std::get_if<format::GgufArray>(&found->second.value);
  if (array == nullptr || !array->is_integer() || array->count != count) {
    return metadata.bad(key, fmt::format("not a list of {} integers", count));
  }
  for (size_t i = 0; i < count; ++i) types[i] = array->integer(i);
  return types;
}

// Whether a token is cut out of the text before the regular expressions see it, and whether it is a control
// token.
bool is_added(int64_t type, std::string_view content) {
  return type == kControl || type == kUnknown || type == kUserDefined || is_one_of(content, kEndTexts) ||
         is_one_of(content, kTurnMarkers);
}

base::Status read_vocabulary(const Metadata& metadata, const std::vector<std::string>& tokens,
                             const std::vector<int64_t>& types, text::TokenizerSpec& spec) {
  auto& bpe = std::get<text::BpeSpec>(spec.model);
  if (tokens.size() > static_cast<size_t>(text::kMaxTokens)) {
    return metadata.bad("tokenizer.ggml.tokens",
                        fmt::format("{} tokens are more than any model has", tokens.size()));
  }
  bpe.pieces = tokens;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == kUnused) bpe.pieces[id].clear();
    if (tokens[id].empty() || types[id] == kUnused || !is_added(types[id], tokens[id])) continue;
    text::AddedToken added;
    added.id = static_cast<int32_t>(id);
    added.content = tokens[id];
    added.special = types[id] != kUserDefined;
    spec.added.push_back(std::move(added));
  }
  RAFTER_ASSIGN(const std::vector<std::string>* merges, metadata.strings("tokenizer.ggml.merges"));
  if (merges == nullptr) return metadata.bad("tokenizer.ggml.merges", "the key is missing");
  for (const std::string& merge : *merges) {
    auto pair = text::split_merge(merge);
    if (!pair)
      return metadata.bad("tokenizer.ggml.merges", "an entry is not two pieces with a space between them");
    bpe.merges.push_back(std::move(*pair));
  }
  bpe.first_duplicate_merge_wins = true;
  return {};
}

base::Status read_pre_tokenizer(const Metadata& metadata, const SpecialIds& ids, text::TokenizerSpec& spec) {
  RAFTER_ASSIGN(const std::string* name, metadata.string("tokenizer.ggml.pre"));
  auto found = text::pre_tokenizer_from_gguf_name(name != nullptr ? *name : "default");
  if (!found.ok()) {
    base::Error error = found.error();
    error.where = metadata.where("tokenizer.ggml.pre");
    return error;
  }
  spec.pre_tokenizer = found->steps;
  spec.normalizer = found->normalizer;
  std::get<text::BpeSpec>(spec.model).ignore_merges = found->ignore_merges;
  RAFTER_ASSIGN(const bool add_bos, metadata.boolean("tokenizer.ggml.add_bos_token", found->add_bos));
  RAFTER_ASSIGN(const bool add_eos, metadata.boolean("tokenizer.ggml.add_eos_token", false));
  if (add_bos && ids.bos) spec.prefix = {*ids.bos};
  if (add_eos && ids.eos) spec.suffix = {*ids.eos};
  return {};
}

// BPE with merges over text whose spaces are U+2581 (Gemma 4): lines and runs of newlines apart, no space in
// front, bytes for what is no piece, always a beginning-of-text token.
base::Status read_spaced_bpe(const std::vector<std::string>& tokens, const std::vector<int64_t>& types,
                             const SpecialIds& ids, text::TokenizerSpec& spec) {
  auto& bpe = std::get<text::BpeSpec>(spec.model);
  bpe.byte_fallback = true;
  bpe.fuse_unknown = true;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == kUnknown && !tokens[id].empty()) bpe.unknown_piece = tokens[id];
  }
  spec.normalizer = {text::ReplaceStep{" ", false, "\u2581"}};
  spec.pre_tokenizer = {text::SplitStep{"[^\n]+|[\n]+", true, text::SplitBehavior::isolated, false}};
  spec.decoder = {text::ReplaceDecoder{"\u2581", false, " "}, text::ByteFallbackDecoder{},
                  text::FuseDecoder{}};
  if (ids.bos) spec.prefix = {*ids.bos};
  return {};
}

base::Result<std::vector<float>> read_scores(const format::Checkpoint& checkpoint, const Metadata& metadata,
                                             size_t count) {
  const std::string key = "tokenizer.ggml.scores";
  const auto found = checkpoint.gguf_metadata().find(key);
  if (found == checkpoint.gguf_metadata().end()) return metadata.bad(key, "the key is missing");
  const auto* array = std::get_if<format::GgufArray>(&found->second.value);
  if (array == nullptr || array->type != tensor::DType::f32 || array->count != count) {
    return metadata.bad(key, fmt::format("not a list of {} numbers", count));
  }
  std::vector<float> scores(count);
  for (size_t id = 0; id < count; ++id) scores[id] = static_cast<float>(array->number(id));
  return scores;
}

// A SentencePiece model (BPE: "llama", Unigram: "t5") in the file's own words.
base::Result<text::TokenizerSpec> read_sentencepiece(const format::Checkpoint& checkpoint,
                                                     const Metadata& metadata,
                                                     const std::vector<std::string>& tokens,
                                                     const std::vector<int64_t>& types, const SpecialIds& ids,
                                                     bool is_unigram) {
  constexpr int32_t kUsualBos = 1, kUsualEos = 2;
  text::SentencePieceModel model;
  model.algorithm =
      is_unigram ? text::SentencePieceModel::Algorithm::unigram : text::SentencePieceModel::Algorithm::bpe;
  model.pieces = tokens;
  RAFTER_ASSIGN(model.scores, read_scores(checkpoint, metadata, tokens.size()));
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool is_known = types[id] >= kNormal && types[id] <= 6;
    if (!is_known)
      return metadata.bad("tokenizer.ggml.token_type", fmt::format("token {} has type {}", id, types[id]));
    auto type = static_cast<text::SentencePieceType>(types[id]);
    if (type == text::SentencePieceType::normal && is_added(types[id], tokens[id])) {
      type = text::SentencePieceType::control;
    }
    model.types.push_back(type);
  }
  const auto charsmap = checkpoint.gguf_metadata().find("tokenizer.ggml.precompiled_charsmap");
  if (charsmap != checkpoint.gguf_metadata().end()) {
    const auto* array = std::get_if<format::GgufArray>(&charsmap->second.value);
    if (array == nullptr || !array->is_integer()) {
      return metadata.bad("tokenizer.ggml.precompiled_charsmap", "not a list of bytes");
    }
    for (uint64_t i = 0; i < array->count; ++i) model.charsmap += static_cast<char>(array->integer(i));
  }
  RAFTER_ASSIGN(model.add_space_prefix, metadata.boolean("tokenizer.ggml.add_space_prefix", true));
  RAFTER_ASSIGN(model.remove_extra_spaces,
                metadata.boolean("tokenizer.ggml.remove_extra_whitespaces", false));
  RAFTER_ASSIGN(const bool add_bos, metadata.boolean("tokenizer.ggml.add_bos_token", !is_unigram));
  RAFTER_ASSIGN(const bool add_eos, metadata.boolean("tokenizer.ggml.add_eos_token", is_unigram));
  model.bos = ids.bos.value_or(kUsualBos);
  model.eos = ids.eos.value_or(is_unigram ? kUsualBos : kUsualEos);
  return text::spec_of_sentencepiece(model, add_bos, add_eos);
}

base::Result<text::Tokenizer> build_tokenizer(const format::Checkpoint& checkpoint, const Metadata& metadata,
                                              const std::vector<std::string>& tokens, const SpecialIds& ids) {
  RAFTER_ASSIGN(const std::string* whole, metadata.string("tokenizer.huggingface.json"));
  if (whole != nullptr) {
    return text::Tokenizer::from_json(*whole, metadata.where("tokenizer.huggingface.json"));
  }
  RAFTER_ASSIGN(const std::string* model, metadata.string("tokenizer.ggml.model"));
  RAFTER_ASSIGN(const std::vector<int64_t> types, read_token_types(checkpoint, metadata, tokens.size()));
  const std::string name = model != nullptr ? *model : "none";
  text::TokenizerSpec spec;
  if (name == "gpt2") {
    spec.decoder = {text::ByteLevelDecoder{}};
    RAFTER_TRY(read_vocabulary(metadata, tokens, types, spec));
    RAFTER_TRY(read_pre_tokenizer(metadata, ids, spec));
  } else if (name == "gemma4") {
    RAFTER_TRY(read_vocabulary(metadata, tokens, types, spec));
    RAFTER_TRY(read_spaced_bpe(tokens, types, ids, spec));
  } else if (name == "llama" || name == "t5") {
    RAFTER_ASSIGN(spec, read_sentencepiece(checkpoint, metadata, tokens, types, ids, name == "t5"));
  } else {
    return base::Error{base::ErrorCode::unsupported,
                       fmt::format("the tokenizer model \"{}\" is not supported", name),
                       metadata.where("tokenizer.ggml.model"), "known: gpt2, llama, gemma4, t5"};
  }
  return text::Tokenizer::from_spec(spec, checkpoint.path());
}

constexpr const char* kTemplateKey = "tokenizer.chat_template";

// The key itself is the default template, KEY.NAME are others. (tokenizer.chat_templates lists their names.)
base::Status read_templates(const format::Checkpoint& checkpoint, const Metadata& metadata,
                            TextSources& sources) {
  const std::string prefix = std::string(kTemplateKey) + ".";
  const auto& all = checkpoint.gguf_metadata();
  for (auto found = all.lower_bound(kTemplateKey); found != all.end(); ++found) {
    const std::string& key = found->first;
    if (!key.starts_with(kTemplateKey)) break;
    if (key != kTemplateKey && !key.starts_with(prefix)) continue;
    RAFTER_ASSIGN(const std::string* jinja, metadata.string(key));
    const std::string name = key == kTemplateKey ? "default" : key.substr(prefix.size());
    sources.templates.emplace(name, TemplateSource{*jinja, metadata.where(key)});
  }
  return {};
}

}  // namespace

base::Result<TextSources> text_sources_of_gguf(const format::Checkpoint& checkpoint) {
  const Metadata metadata(checkpoint);
  RAFTER_ASSIGN(const std::vector<std::string>* tokens, metadata.strings("tokenizer.ggml.tokens"));
  if (tokens == nullptr) return metadata.bad("tokenizer.ggml.tokens", "the key is missing");
  RAFTER_ASSIGN(const SpecialIds ids, read_special_ids(metadata, tokens->size()));
  RAFTER_ASSIGN(text::Tokenizer tokenizer, build_tokenizer(checkpoint, metadata, *tokens, ids));
  TextSources sources{std::move(tokenizer), {}, metadata.where(kTemplateKey), {}, {}, {}};
  RAFTER_TRY(read_templates(checkpoint, metadata, sources));

  const std::pair<const char*, std::optional<int32_t>> named[] = {
      {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unknown}, {"pad_token", ids.padding}};
  for (const auto& [name, id] : named) {
    if (id) sources.special_tokens.emplace(name, (*tokens)[static_cast<size_t>(*id)]);
  }
  std::set<int32_t> ends;
  for (const std::optional<int32_t>& id : {ids.eos, ids.eot, ids.eom}) {
    if (id) ends.insert(*id);
  }
  for (std::string_view text : kEndTexts) {
    if (auto id = sources.tokenizer.token_id(text)) ends.insert(*id);
  }
  sources.end_tokens.assign(ends.begin(), ends.end());
  return sources;
}

}  // namespace rafter::decode
