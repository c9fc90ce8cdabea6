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

struct TextSources {
  text::Tokenizer tokenizer;
  std::optional<std::string> chat_template;           // Jinja source
  std::string template_file;                          // where it came from, for messages
  std::map<std::string, std::string> special_tokens;  // "bos_token" → "<s>", for the template
  std::vector<int32_t> end_tokens;                    // ascending
  GenerationDefaults defaults;
};

// tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja,
// generation_config.json, config.json. Errors: not_found (no tokenizer.json), invalid_data, unsupported.
base::Result<TextSources> text_sources_of_folder(const format::Checkpoint& checkpoint);

// The metadata of a GGUF file. Errors: invalid_data, unsupported (a tokenizer model other than byte-level
// BPE, by name).
base::Result<TextSources> text_sources_of_gguf(const format::Checkpoint& checkpoint);

}  // namespace rafter::decode
