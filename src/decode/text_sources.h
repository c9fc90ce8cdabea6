// What a checkpoint says about text, whatever its container: the parts that ModelText is made of. For
// implementation files of decode/ only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "text/tokenizer.h"

namespace rafter::decode {

// Sampling that the checkpoint recommends; requests and flags come before it.
struct GenerationDefaults {
  float temperature = 0.7f;
  float top_p = 0;               // 0: off
  int32_t top_k = 0;             // 0: off
  float repetition_penalty = 0;  // 0: off

  bool operator==(const GenerationDefaults&) const = default;
};

struct TemplateSource {
  std::string jinja;
  std::string where;  // it came from, for messages
};

struct TextSources {
  text::Tokenizer tokenizer;
  std::map<std::string, TemplateSource> templates;    // by name: "default", "tool_use", …
  std::string template_place;                         // where one would be, for messages
  std::map<std::string, std::string> special_tokens;  // "bos_token" → "<s>", for the template
  std::vector<int32_t> end_tokens;                    // ascending
  GenerationDefaults defaults;
};

// tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja and
// additional_chat_templates/NAME.jinja, generation_config.json, config.json. Errors: not_found (no
// tokenizer.json), invalid_data, unsupported.
base::Result<TextSources> text_sources_of_folder(const format::Checkpoint& checkpoint);

// The metadata of a GGUF file. Errors: invalid_data, unsupported (a tokenizer model other than byte-level
// BPE, by name).
base::Result<TextSources> text_sources_of_gguf(const format::Checkpoint& checkpoint);

}  // namespace rafter::decode
