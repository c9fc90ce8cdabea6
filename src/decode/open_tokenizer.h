// A tokenizer without its model.
#pragma once

#include <string>

#include "base/result.h"
#include "text/tokenizer.h"

namespace rafter::decode {

// From a tokenizer.json, a tokenizer.model, a folder that holds one of them, a GGUF file, or any checkpoint.
// Errors: not_found, invalid_data, unsupported.
base::Result<text::Tokenizer> open_tokenizer(const std::string& path);

}  // namespace rafter::decode
