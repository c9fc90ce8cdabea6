#include "serve/prompt_builder.h"

#include <algorithm>

namespace rafter::serve {
namespace {

base::Error build_error(const base::Error& error) {
  if (error.code == base::ErrorCode::unsupported)
    return {error.code, error.what, "messages", "use /v1/completions to continue plain text"};
  return {base::ErrorCode::invalid_argument, "prompt build failed: " + error.what, "messages", ""};
}

// The messages up to `count`, an answer, and a next question: what the next prompt of a conversation that
// branches there looks like.
Json branched(const Json& messages, size_t count, const char* answer) {
  Json result = Json::array();
  for (size_t i = 0; i < count; ++i) result.push_back(messages[i]);
  if (answer != nullptr) result.push_back({{"role", "assistant"}, {"content", answer}});
  result.push_back({{"role", "user"}, {"content", "\x01"}});
  return result;
}

size_t system_count(const Json& messages) {
  size_t count = 0;
  while (count < messages.size() && messages[count]["role"] == "system") ++count;
  return count;
}

size_t last_user_count(const Json& messages) {
  size_t count = messages.size();
  while (count > 0 && messages[count - 1]["role"] != "user") --count;
  return count;
}

}  // namespace

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto most = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::mismatch(a.begin(), a.begin() + most, b.begin()).first - a.begin();
}

Json PromptBuilder::variables_of(const Conversation& conversation, const Json& messages) const {
  Json variables = options_.template_variables;
  for (const auto& [name, value] : conversation.template_variables.items()) variables[name] = value;
  const std::optional<bool> thinking =
      conversation.enable_thinking ? conversation.enable_thinking : options_.thinking;
  if (thinking) variables["enable_thinking"] = *thinking;
  if (!conversation.reasoning_effort.empty()) variables["reasoning_effort"] = conversation.reasoning_effort;
  variables["messages"] = messages;
  variables.erase("tools");
  if (!conversation.tools.empty() && conversation.tool_choice.kind != ToolChoice::Kind::none)
    variables["tools"] = conversation.tools;
  variables["add_generation_prompt"] = true;
  return variables;
}

base::Result<BuiltPrompt> PromptBuilder::build(const Conversation& conversation) const {
  const Json variables = variables_of(conversation, conversation.messages);
  auto rendered = text_.render_variables_marked(to_text(variables));
  if (!rendered.ok()) return build_error(rendered.error());
  BuiltPrompt prompt;
  auto tokens = decode::encode_rendered(text_.tokenizer(), *rendered);
  if (!tokens.ok()) return build_error(tokens.error());
  prompt.tokens = std::move(*tokens);
  prompt.text = std::move(rendered->text);
  prompt.start = text::output_start(format_, prompt.text);
  const auto thinking = variables.find("enable_thinking");
  prompt.thinking_off = thinking != variables.end() && *thinking == false;
  prompt.boundaries = boundaries_of(conversation, prompt);
  if (prompt.tokens.empty())
    return base::Error{base::ErrorCode::invalid_argument, "prompt build failed: the prompt is empty",
                       "messages", ""};
  return prompt;
}

// Found by asking what a branch would look like: the tokens that a render with another continuation has in
// common with the prompt. A template that refuses such a conversation gives no boundary there.
std::vector<int64_t> PromptBuilder::boundaries_of(const Conversation& conversation,
                                                  const BuiltPrompt& prompt) const {
  const Json& messages = conversation.messages;
  std::vector<Json> branches;
  if (const size_t count = system_count(messages); count > 0 || !conversation.tools.empty())
    branches.push_back(branched(messages, count, nullptr));
  if (const size_t count = last_user_count(messages); count > 0 && count < messages.size())
    branches.push_back(branched(messages, count, "\x01"));
  branches.push_back(branched(messages, messages.size(), "\x01"));

  std::vector<int64_t> boundaries;
  for (const Json& branch : branches) {
    const auto rendered = text_.render_variables_marked(to_text(variables_of(conversation, branch)));
    if (!rendered.ok()) continue;
    const auto tokens = decode::encode_rendered(text_.tokenizer(), *rendered);
    if (!tokens.ok()) continue;
    const int64_t length = common_prefix(*tokens, prompt.tokens);
    if (length > 0) boundaries.push_back(length);
  }
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  return boundaries;
}

// The text in front, the text behind, and then what belongs in between, by the marks that the model was
// trained with.
base::Result<BuiltPrompt> PromptBuilder::build_infill(const RawPrompt& prompt) const {
  static constexpr const char* kMarks[][3] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                              {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                              {"<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>"},
                                              {"▁<PRE>", "▁<SUF>", "▁<MID>"}};
  const text::Tokenizer& tokenizer = text_.tokenizer();
  for (const auto& marks : kMarks) {
    const auto before = tokenizer.token_id(marks[0]), behind = tokenizer.token_id(marks[1]),
               middle = tokenizer.token_id(marks[2]);
    if (!before || !behind || !middle) continue;
    BuiltPrompt built;
    built.tokens = tokenizer.prefix();
    const std::pair<int32_t, const std::string*> parts[] = {{*before, &std::get<std::string>(prompt.text)},
                                                            {*behind, &prompt.suffix}};
    for (const auto& [mark, text] : parts) {
      built.tokens.push_back(mark);
      RAFTER_ASSIGN(const auto ids,
                    tokenizer.encode(*text, /*add_special=*/false, text::SpecialTokens::as_text));
      built.tokens.insert(built.tokens.end(), ids.begin(), ids.end());
    }
    built.tokens.push_back(*middle);
    return built;
  }
  return base::Error{base::ErrorCode::unsupported, "the model has no marks to fill in between two texts",
                     "suffix", ""};
}

base::Result<BuiltPrompt> PromptBuilder::build(const RawPrompt& prompt) const {
  if (prompt.is_infill) return build_infill(prompt);
  BuiltPrompt built;
  if (const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt.text)) {
    for (const int32_t id : *tokens) {
      if (id < 0 || id >= text_.tokenizer().vocab_size())
        return field_error("prompt", "has a token id that is not in the vocabulary");
    }
    built.tokens = *tokens;
    return built;
  }
  built.text = std::get<std::string>(prompt.text);
  auto tokens = text_.raw_prompt(built.text);
  if (!tokens.ok()) return base::Error{base::ErrorCode::invalid_argument, tokens.error().what, "prompt", ""};
  built.tokens = std::move(*tokens);
  if (built.tokens.empty()) return field_error("prompt", "must be a non-empty string");
  return built;
}

}  // namespace rafter::serve
