// The content of a tokenizer.json as a TokenizerSpec.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// Truncation and padding are ignored. Error: malformed (invalid_data), or a component that is not supported
// (unsupported; `where` becomes "file: key").
base::Result<TokenizerSpec> parse_tokenizer_json(std::string_view json, const std::string& where);

}  // namespace rafter::text
