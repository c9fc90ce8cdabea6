#include "decode/model_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace rafter::decode {
namespace {

using text::SpecialTokens;

struct Fragment {
  std::string_view text;
  bool is_input;
};

// The text cut at the borders of its input ranges, which are ascending and do not overlap.
std::vector<Fragment> fragments_of(const text::Rendered& rendered) {
  const std::string_view whole = rendered.text;
  std::vector<Fragment> fragments;
  size_t end = 0;
  for (const auto& range : rendered.input) {
    if (range.begin > end) fragments.push_back({whole.substr(end, range.begin - end), false});
    if (range.end > range.begin)
      fragments.push_back({whole.substr(range.begin, range.end - range.begin), true});
    end = range.end;
  }
  if (end < whole.size()) fragments.push_back({whole.substr(end), false});
  return fragments;
}

int64_t count_special(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_special(id); });
}

base::Result<text::ChatTemplate> parse_template(const TextSources& sources) {
  if (sources.chat_template) return text::ChatTemplate::parse(*sources.chat_template, sources.template_file);
  return base::Error{base::ErrorCode::unsupported, "the model has no chat template", sources.template_file,
                     "use --raw to continue plain text"};
}

}  // namespace

base::Result<ModelText> ModelText::from_checkpoint(const format::Checkpoint& checkpoint) {
  const bool is_gguf = checkpoint.container() == format::Container::gguf;
  RAFTER_ASSIGN(TextSources sources,
                is_gguf ? text_sources_of_gguf(checkpoint) : text_sources_of_folder(checkpoint));
  RAFTER_TRY(checkpoint.check_not_cut());  // token types and scores were read from the mapping
  base::Result<text::ChatTemplate> chat_template = parse_template(sources);
  return ModelText(std::move(sources), std::move(chat_template));
}

SamplingParams ModelText::default_sampling() const {
  SamplingParams params;
  params.temperature = defaults().temperature;
  params.top_p = defaults().top_p;
  params.top_k = defaults().top_k;
  params.repetition.strength = defaults().repetition_penalty;
  return params;
}

base::Result<text::Rendered> ModelText::render(const std::vector<ChatMessage>& messages) const {
  if (!template_.ok()) return template_.error();
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"add_generation_prompt", true}};
  for (const ChatMessage& message : messages) {
    variables["messages"].push_back(
        {{"role", message.role}, {"content", base::replace_malformed_utf8(message.content)}});
  }
  for (const auto& [name, text] : sources_.special_tokens)
    variables[name] = base::replace_malformed_utf8(text);
  return template_->render_json_marked(variables.dump());
}

base::Result<std::string> ModelText::render_chat(const std::vector<ChatMessage>& messages) const {
  RAFTER_ASSIGN(text::Rendered rendered, render(messages));
  return std::move(rendered.text);
}

std::string_view ModelText::template_source() const {
  return sources_.chat_template ? std::string_view(*sources_.chat_template) : std::string_view();
}

base::Status ModelText::replace_template(std::string source, std::string where) {
  RAFTER_ASSIGN(text::ChatTemplate parsed, text::ChatTemplate::parse(source, where));
  sources_.chat_template = std::move(source);
  sources_.template_file = std::move(where);
  template_ = std::move(parsed);
  return {};
}

base::Result<std::string> ModelText::render_variables(std::string_view variables_json) const {
  RAFTER_ASSIGN(text::Rendered rendered, render_variables_marked(variables_json));
  return std::move(rendered.text);
}

base::Result<text::Rendered> ModelText::render_variables_marked(std::string_view variables_json) const {
  if (!template_.ok()) return template_.error();
  RAFTER_ASSIGN(const text::Value given, text::parse_json_value(variables_json));
  if (!given.is(text::jinja::Kind::dict)) return template_->render_json_marked(variables_json);  // the error
  std::vector<std::pair<std::string, text::Value>> variables;
  for (const auto& [name, text] : sources_.special_tokens)
    variables.emplace_back(name, text::Value::string(text, text::Origin::trusted));
  for (const auto& entry : given.as_dict().entries()) variables.emplace_back(entry.key.text(), entry.value);
  return template_->render(text::Value::dict(variables));
}

base::Result<std::vector<int32_t>> ModelText::chat_prompt(const std::vector<ChatMessage>& messages) const {
  RAFTER_ASSIGN(const text::Rendered rendered, render(messages));
  return encode_rendered(tokenizer(), rendered);
}

base::Result<std::vector<int32_t>> ModelText::raw_prompt(std::string_view text) const {
  return tokenizer().encode(text, /*add_special=*/true);
}

base::Result<std::vector<int32_t>> encode_rendered(const text::Tokenizer& tokenizer,
                                                   const text::Rendered& rendered) {
  RAFTER_ASSIGN(std::vector<int32_t> whole, tokenizer.encode(rendered.text, /*add_special=*/false));
  const std::vector<Fragment> fragments = fragments_of(rendered);
  int64_t from_template = 0;
  for (const Fragment& fragment : fragments) {
    if (fragment.is_input) continue;
    RAFTER_ASSIGN(const auto ids, tokenizer.encode(fragment.text, /*add_special=*/false));
    from_template += count_special(tokenizer, ids);
  }
  if (count_special(tokenizer, whole) == from_template) return whole;

  std::vector<int32_t> ids;
  for (const Fragment& fragment : fragments) {
    const auto special = fragment.is_input ? SpecialTokens::as_text : SpecialTokens::match;
    RAFTER_ASSIGN(const auto part, tokenizer.encode(fragment.text, /*add_special=*/false, special));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

}  // namespace rafter::decode
