// The components of a tokenizer.json that are lists of steps. For implementation files only.
#pragma once

#include "base/result.h"
#include "text/tokenizer_json_value.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// Each appends its steps to the spec; null has none. Errors: malformed (invalid_data), a type that is not
// known (unsupported).
base::Status read_normalizer(const JsonPlace& component, TokenizerSpec& spec);
base::Status read_pre_tokenizer(const JsonPlace& component, TokenizerSpec& spec);
base::Status read_post_processor(const JsonPlace& component, TokenizerSpec& spec);
base::Status read_decoder(const JsonPlace& component, TokenizerSpec& spec);

// A token id: an integer in [0, kMaxTokens).
base::Result<int32_t> read_token_id(const JsonPlace& place);

}  // namespace rafter::text
