#include "decode/model_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "text/quote.h"

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

}  // namespace

base::Result<ModelText> ModelText::from_checkpoint(const format::Checkpoint& checkpoint) {
  const bool is_gguf = checkpoint.container() == format::Container::gguf;
  RAFTER_ASSIGN(TextSources sources,
                is_gguf ? text_sources_of_gguf(checkpoint) : text_sources_of_folder(checkpoint));
  RAFTER_TRY(checkpoint.check_not_cut());  // token types and scores were read from the mapping
  return ModelText(std::move(sources));
}

ModelText::ModelText(TextSources sources) : sources_(std::move(sources)) {
  for (const auto& [name, source] : sources_.templates) {
    templates_.emplace(name, text::ChatTemplate::parse(source.jinja, source.where));
  }
}

std::vector<std::string> ModelText::template_names() const {
  std::vector<std::string> names;
  for (const auto& [name, parsed] : templates_) names.push_back(name);
  return names;
}

base::Result<text::ChatTemplate> ModelText::chat_template(const std::string& name, bool has_tools) const {
  const bool wants_tool_use = name.empty() && has_tools && templates_.contains("tool_use");
  const std::string chosen = !name.empty() ? name : wants_tool_use ? "tool_use" : "default";
  if (const auto found = templates_.find(chosen); found != templates_.end()) return found->second;
  if (templates_.empty()) {
    return base::Error{base::ErrorCode::unsupported, "the model has no chat template",
                       sources_.template_place, "use --raw to continue plain text"};
  }
  return base::Error{base::ErrorCode::invalid_argument,
                     fmt::format("the model has no chat template {}", text::quote(chosen)),
                     sources_.template_place, fmt::format("it has {}", fmt::join(template_names(), ", "))};
}

SamplingParams ModelText::default_sampling() const {
  SamplingParams params;
  params.temperature = defaults().temperature;
  params.top_p = defaults().top_p;
  params.top_k = defaults().top_k;
  params.repetition.strength = defaults().repetition_penalty;
  return params;
}

std::string_view ModelText::template_source() const {
  const auto found = sources_.templates.find("tool_use");
  return found != sources_.templates.end() ? std::string_view(found->second.jinja) : default_source();
}

base::Status ModelText::replace_templates(std::string source, std::string where) {
  RAFTER_ASSIGN(text::ChatTemplate parsed, text::ChatTemplate::parse(source, where));
  sources_.templates = {{"default", {std::move(source), std::move(where)}}};
  templates_.clear();
  templates_.emplace("default", std::move(parsed));
  return {};
}

std::string_view ModelText::default_source() const {
  const auto found = sources_.templates.find("default");
  return found != sources_.templates.end() ? std::string_view(found->second.jinja) : std::string_view();
}

text::OutputFormat ModelText::output_format() const { return *text::choose_output_format(default_source()); }

bool ModelText::has_thinking_switch() const {
  constexpr std::string_view kUses[] = {"enable_thinking", "if thinking", "thinking is defined"};
  return std::any_of(std::begin(kUses), std::end(kUses), [&](std::string_view use) {
    return default_source().find(use) != std::string_view::npos;
  });
}

base::Result<text::Rendered> ModelText::render(const std::vector<ChatMessage>& messages,
                                               const ChatSwitches& switches) const {
  RAFTER_ASSIGN(const text::ChatTemplate chat, chat_template("", /*has_tools=*/false));
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"add_generation_prompt", true}};
  for (const ChatMessage& message : messages) {
    variables["messages"].push_back(
        {{"role", message.role}, {"content", base::replace_malformed_utf8(message.content)}});
    if (!message.reasoning.empty())
      variables["messages"].back()["reasoning_content"] = base::replace_malformed_utf8(message.reasoning);
  }
  if (switches.thinking) {  // the names that templates look at
    variables["enable_thinking"] = *switches.thinking;
    variables["thinking"] = *switches.thinking;
  }
  for (const auto& [name, text] : sources_.special_tokens)
    variables[name] = base::replace_malformed_utf8(text);
  return chat.render_json_marked(variables.dump());
}

base::Result<std::string> ModelText::render_chat(const std::vector<ChatMessage>& messages,
                                                 const ChatSwitches& switches) const {
  RAFTER_ASSIGN(text::Rendered rendered, render(messages, switches));
  return std::move(rendered.text);
}

base::Result<ChatPrompt> ModelText::chat_turn(const std::vector<ChatMessage>& messages,
                                              const ChatSwitches& switches) const {
  RAFTER_ASSIGN(const text::Rendered rendered, render(messages, switches));
  RAFTER_ASSIGN(std::vector<int32_t> tokens, encode_rendered(tokenizer(), rendered));
  return ChatPrompt{std::move(tokens), text::output_start(output_format(), rendered.text)};
}

base::Result<std::string> ModelText::render_variables(std::string_view variables_json,
                                                      const std::string& template_name) const {
  RAFTER_ASSIGN(text::Rendered rendered, render_variables_marked(variables_json, template_name));
  return std::move(rendered.text);
}

base::Result<text::Rendered> ModelText::render_variables_marked(std::string_view variables_json,
                                                                const std::string& template_name) const {
  RAFTER_ASSIGN(const text::Value given, text::parse_json_value(variables_json));
  const bool is_dict = given.is(text::jinja::Kind::dict);
  const text::Value* tools = is_dict ? given.as_dict().find("tools") : nullptr;
  const bool has_tools = tools != nullptr && !tools->is(text::jinja::Kind::none);
  RAFTER_ASSIGN(const text::ChatTemplate chat, chat_template(template_name, has_tools));
  if (!is_dict) return chat.render_json_marked(variables_json);  // the error
  std::vector<std::pair<std::string, text::Value>> variables;
  for (const auto& [name, text] : sources_.special_tokens)
    variables.emplace_back(name, text::Value::string(text, text::Origin::trusted));
  for (const auto& entry : given.as_dict().entries()) variables.emplace_back(entry.key.text(), entry.value);
  return chat.render(text::Value::dict(variables));
}

base::Result<std::vector<int32_t>> ModelText::chat_prompt(const std::vector<ChatMessage>& messages) const {
  RAFTER_ASSIGN(const text::Rendered rendered, render(messages, {}));
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
