// Text embeddings: the last token's hidden state after the final norm, scaled to length 1.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/model_text.h"
#include "engine/engine.h"

namespace rafter::lab {

// What an embedding engine must keep and leave out (engine/engine.h).
void set_embedding_options(engine::EngineOptions& options);

// The text's ids without special tokens around, then the one whose state stands for the text: the tokenizer's
// own suffix, else `<|endoftext|>`, else the first end token. Errors: the tokenizer's; unsupported (no such
// token).
base::Result<std::vector<int32_t>> embedding_tokens(const decode::ModelText& text, std::string_view input);

// One vector [D] per sequence; as many sequences share a step as fit. `engine`: opened with the options
// above. A state of length zero stays zeros.
base::Result<std::vector<std::vector<float>>> embed_blocking(engine::Engine& engine,
                                                             std::span<const std::vector<int32_t>> sequences);

}  // namespace rafter::lab
