// The pre-tokenizers that GGUF files name in `tokenizer.ggml.pre`.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

struct GgufPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  std::vector<NormalizerStep>
      normalizer;  // what the family's tokenizer.json says; the file itself cannot say it
  bool ignore_merges = false;
  bool add_bos = false;  // where the file has no tokenizer.ggml.add_bos_token
};

// Error (unsupported): an id that is not known. Never a fallback: another pre-tokenizer gives silently worse
// ids.
base::Result<GgufPreTokenizer> pre_tokenizer_from_gguf_name(std::string_view name);

}  // namespace rafter::text
