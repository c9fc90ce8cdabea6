#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "decode/text_sources.h"
#include "format/strict_json.h"
#include "text/quote.h"

namespace rafter::decode {
namespace {

using nlohmann::json;

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                          "sep_token", "cls_token", "mask_token"};

base::Error bad_key(const std::string& file, const std::string& key, const std::string& what) {
  return base::Error{base::ErrorCode::invalid_data, what, file + ": " + key, ""};
}

// An optional side file as a JSON object; an absent one is an empty object.
base::Result<json> object_of(const format::Checkpoint& checkpoint, const char* file) {
  RAFTER_ASSIGN(std::optional<std::string> text, checkpoint.sidecar(file));
  if (!text) return json::object();
  json parsed =
      json::parse(format::quote_non_finite_numbers(*std::move(text)), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return base::Error{base::ErrorCode::invalid_data, "not a JSON object", checkpoint.path() + "/" + file,
                       ""};
  }
  return parsed;
}

// A special token's entry: its text, or an object that holds it.
std::optional<std::string> token_text(const json& entry) {
  if (entry.is_string()) return entry.get<std::string>();
  if (entry.is_object() && entry.contains("content") && entry["content"].is_string()) {
    return entry["content"].get<std::string>();
  }
  return std::nullopt;
}

void collect_special_tokens(const json& config, std::map<std::string, std::string>& tokens) {
  for (const char* name : kSpecialTokens) {
    if (!config.contains(name)) continue;
    if (auto text = token_text(config[name])) tokens.emplace(name, *text);
  }
}

// eos_token_id: an integer, a list of them, or null.
base::Status collect_end_tokens(const json& config, const std::string& file, std::set<int32_t>& ends) {
  if (!config.contains("eos_token_id") || config["eos_token_id"].is_null()) return {};
  const json& value = config["eos_token_id"];
  const json list = value.is_array() ? value : json::array({value});
  for (const json& id : list) {
    const bool fits = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
    if (!fits) return bad_key(file, "eos_token_id", "not a token id or a list of them");
    ends.insert(id.get<int32_t>());
  }
  return {};
}

// chat_template of tokenizer_config.json: a template, or a list of templates with names.
base::Status read_config_templates(const json& entry, const std::string& file, TextSources& sources) {
  const auto bad = [&] {
    return bad_key(file, "chat_template", "neither a template nor a list of templates with names");
  };
  if (entry.is_null()) return {};
  const json list = entry.is_string() ? json::array({{{"name", "default"}, {"template", entry}}}) : entry;
  if (!list.is_array()) return bad();
  for (const json& named : list) {
    const json name = named.is_object() ? named.value("name", json()) : json();
    const json jinja = named.is_object() ? named.value("template", json()) : json();
    if (!name.is_string() || !jinja.is_string()) return bad();
    const std::string where =
        file + ": chat_template" + (entry.is_string() ? "" : " " + text::quote(name.get<std::string>()));
    sources.templates.insert_or_assign(name.get<std::string>(),
                                       TemplateSource{jinja.get<std::string>(), where});
  }
  return {};
}

// Template files come before the key of tokenizer_config.json: chat_template.jinja is the default one.
base::Status find_templates(const format::Checkpoint& checkpoint, const json& config, TextSources& sources) {
  const std::string folder = checkpoint.path() + "/";
  sources.template_place = folder + "chat_template.jinja";
  RAFTER_ASSIGN(std::optional<std::string> file, checkpoint.sidecar("chat_template.jinja"));
  RAFTER_ASSIGN(auto named, checkpoint.sidecars("additional_chat_templates", ".jinja"));
  for (auto& [name, jinja] : named) {
    sources.templates.emplace(
        name, TemplateSource{std::move(jinja), folder + "additional_chat_templates/" + name + ".jinja"});
  }
  if (file)
    sources.templates.insert_or_assign("default", TemplateSource{*std::move(file), sources.template_place});
  if (!sources.templates.empty() || !config.contains("chat_template")) return {};
  return read_config_templates(config["chat_template"], folder + "tokenizer_config.json", sources);
}

template <typename Number>
base::Status read_number(const json& config, const std::string& file, const char* key, double low,
                         double high, Number& out) {
  if (!config.contains(key) || config[key].is_null()) return {};
  const json& value = config[key];
  const bool good = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
  if (!good) return bad_key(file, key, fmt::format("not a number from {} to {}", low, high));
  out = value.get<Number>();
  return {};
}

base::Status read_defaults(const json& config, const std::string& file, GenerationDefaults& defaults) {
  constexpr double kLargest = 1e9;
  RAFTER_TRY(read_number(config, file, "temperature", 0, kLargest, defaults.temperature));
  RAFTER_TRY(read_number(config, file, "top_p", 0, 1, defaults.top_p));
  RAFTER_TRY(read_number(config, file, "top_k", 0, kLargest, defaults.top_k));
  return read_number(config, file, "repetition_penalty", 0, kLargest, defaults.repetition_penalty);
}

base::Result<text::Tokenizer> read_tokenizer(const format::Checkpoint& checkpoint) {
  RAFTER_ASSIGN(const std::optional<std::string> text, checkpoint.sidecar("tokenizer.json"));
  const std::string file = checkpoint.path() + "/tokenizer.json";
  if (text) return text::Tokenizer::from_json(*text, file);
  RAFTER_ASSIGN(const std::optional<std::string> pieces, checkpoint.sidecar("tokenizer.model"));
  if (pieces) return text::Tokenizer::from_sentencepiece(*pieces, checkpoint.path() + "/tokenizer.model");
  return base::Error{base::ErrorCode::not_found, "the file is missing", file,
                     "nor is there a tokenizer.model; the model's page may offer one of them"};
}

}  // namespace

base::Result<TextSources> text_sources_of_folder(const format::Checkpoint& checkpoint) {
  const auto path_of = [&](const char* file) { return checkpoint.path() + "/" + file; };
  RAFTER_ASSIGN(text::Tokenizer tokenizer, read_tokenizer(checkpoint));
  TextSources sources{std::move(tokenizer), {}, "", {}, {}, {}};
  RAFTER_ASSIGN(const json tokenizer_config, object_of(checkpoint, "tokenizer_config.json"));
  RAFTER_ASSIGN(const json special_map, object_of(checkpoint, "special_tokens_map.json"));
  RAFTER_ASSIGN(const json generation, object_of(checkpoint, "generation_config.json"));
  const json config = json::parse(checkpoint.config_json(), nullptr, /*allow_exceptions=*/false);
  collect_special_tokens(tokenizer_config, sources.special_tokens);
  collect_special_tokens(special_map, sources.special_tokens);
  RAFTER_TRY(find_templates(checkpoint, tokenizer_config, sources));
  RAFTER_TRY(read_defaults(generation, path_of("generation_config.json"), sources.defaults));

  // All three places count: models end documents with one token and turns with another, and say so in
  // different files.
  std::set<int32_t> ends;
  const bool has_own = config.is_object() && config.contains("eos_token_id");
  const bool is_wrapped =
      config.is_object() && config.contains("text_config") && config["text_config"].is_object();
  if (has_own || is_wrapped) {
    RAFTER_TRY(collect_end_tokens(has_own ? config : config["text_config"], path_of("config.json"), ends));
  }
  RAFTER_TRY(collect_end_tokens(generation, path_of("generation_config.json"), ends));
  if (auto eos = sources.special_tokens.find("eos_token"); eos != sources.special_tokens.end()) {
    if (auto id = sources.tokenizer.token_id(eos->second)) ends.insert(*id);
  }
  sources.end_tokens.assign(ends.begin(), ends.end());
  return sources;
}

}  // namespace rafter::decode
