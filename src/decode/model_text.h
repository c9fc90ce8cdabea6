// A checkpoint's text side: tokenizer, chat template, special and end tokens, recommended sampling. The one
// place where messages become prompt tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/sampling_params.h"
#include "decode/text_sources.h"
#include "text/chat_template.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace rafter::decode {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  std::string reasoning = {};  // of the assistant, without its tags; templates drop it or not
};

struct ChatSwitches {
  std::optional<bool> thinking;  // absent: as the template does without being asked
};

struct ChatPrompt {
  std::vector<int32_t> tokens;
  text::OutputStart start;  // whether the answer begins inside reasoning
};

class ModelText {
 public:
  // Reads the files beside the weights, or a GGUF file's metadata. A checkpoint without a chat template is
  // fine until one is needed. Errors: not_found, invalid_data, unsupported.
  static base::Result<ModelText> from_checkpoint(const format::Checkpoint& checkpoint);

  const text::Tokenizer& tokenizer() const { return sources_.tokenizer; }
  // Ids that end an answer, ascending.
  const std::vector<int32_t>& end_tokens() const { return sources_.end_tokens; }
  const GenerationDefaults& defaults() const { return sources_.defaults; }
  bool has_chat_template() const { return chat_template("", false).ok(); }
  // Ascending. Most models have one, "default".
  std::vector<std::string> template_names() const;

  // The template for a request, as transformers chooses it: the one of that name if a name is given, else
  // "tool_use" for a request that has tools if there is one, else "default". Errors: unsupported (no
  // template), invalid_argument (none of that name), and why it cannot be parsed.
  base::Result<text::ChatTemplate> chat_template(const std::string& name, bool has_tools) const;

  // The Jinja source that shows most of what the model can do: "tool_use" if there is one, else "default";
  // empty without one.
  std::string_view template_source() const;
  // Uses another template, and that alone, from now on. Errors: as ChatTemplate::parse.
  base::Status replace_templates(std::string source, std::string where);
  // "bos_token" → "<s>", as templates see them.
  const std::map<std::string, std::string>& special_tokens() const { return sources_.special_tokens; }

  // How answers to the default template mark reasoning and calls.
  text::OutputFormat output_format() const;
  // Whether the default template asks to think or not by a variable.
  bool has_thinking_switch() const;

  // Sampling as the checkpoint recommends it.
  SamplingParams default_sampling() const;

  // The prompt that asks for the next answer of the conversation, as text.
  // Errors: unsupported (no template), and the template's own (a role it refuses: invalid_argument).
  base::Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                        const ChatSwitches& switches = {}) const;
  // The same as tokens, for a reader that parses the answer (output_format).
  base::Result<ChatPrompt> chat_turn(const std::vector<ChatMessage>& messages,
                                     const ChatSwitches& switches) const;

  // The template with all its variables as one JSON object (messages, tools, add_generation_prompt, …), as
  // text. The checkpoint's special tokens (bos_token, …) are there unless the object has them. Errors: as
  // render_chat, and chat_template's.
  base::Result<std::string> render_variables(std::string_view variables_json,
                                             const std::string& template_name = "") const;
  // The same, with the ranges that came from inputs, for encode_rendered.
  base::Result<text::Rendered> render_variables_marked(std::string_view variables_json,
                                                       const std::string& template_name = "") const;

  // render_chat's text as tokens. Nothing is added around: the template has the special tokens as text.
  // Special tokens that a message spells out stay text and do not become control tokens.
  base::Result<std::vector<int32_t>> chat_prompt(const std::vector<ChatMessage>& messages) const;

  // Text to continue as it is, with the tokenizer's own prefix (BOS) and suffix.
  base::Result<std::vector<int32_t>> raw_prompt(std::string_view text) const;

 private:
  explicit ModelText(TextSources sources);

  base::Result<text::Rendered> render(const std::vector<ChatMessage>& messages,
                                      const ChatSwitches& switches) const;

  std::string_view default_source() const;

  TextSources sources_;
  // By name; or why one cannot be used: it matters only when it is needed.
  std::map<std::string, base::Result<text::ChatTemplate>> templates_;
};

// The tokens of a rendered template, whose `input` ranges must not yield control tokens. Where they would not
// anyway the text is encoded as a whole, exactly as the reference does; otherwise fragment by fragment.
base::Result<std::vector<int32_t>> encode_rendered(const text::Tokenizer& tokenizer,
                                                   const text::Rendered& rendered);

}  // namespace rafter::decode
