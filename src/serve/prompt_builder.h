// From a conversation or a text to prompt tokens, for every protocol. Any thread may build.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decode/model_text.h"
#include "serve/proto/ask.h"
#include "text/output_parser.h"

namespace rafter::serve {

struct PromptOptions {
  std::optional<bool> thinking;              // what requests that do not say get; absent: the template's own
  Json template_variables = Json::object();  // below those of requests
};

struct BuiltPrompt {
  std::string text;  // what was encoded; of a token prompt: empty
  std::vector<int32_t> tokens;
  // Where later prompts may branch off, ascending: the end of the system part, of the last user message, of
  // what was said so far.
  std::vector<int64_t> boundaries;
  text::OutputStart start = text::OutputStart::content;
  bool thinking_off = false;  // for certain
};

class PromptBuilder {
 public:
  PromptBuilder(const decode::ModelText& text, const text::OutputFormat& format, PromptOptions options)
      : text_(text), format_(format), options_(std::move(options)) {}

  // Errors: invalid_argument ("prompt build failed: …" for what the template refuses), unsupported.
  base::Result<BuiltPrompt> build(const Conversation& conversation) const;
  base::Result<BuiltPrompt> build(const RawPrompt& prompt) const;

 private:
  Json variables_of(const Conversation& conversation, const Json& messages) const;
  base::Result<BuiltPrompt> build_infill(const RawPrompt& prompt) const;
  std::vector<int64_t> boundaries_of(const Conversation& conversation, const BuiltPrompt& prompt) const;

  const decode::ModelText& text_;
  text::OutputFormat format_;
  PromptOptions options_;
};

// How many tokens two prompts have in common at their beginnings.
int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b);

}  // namespace rafter::serve
