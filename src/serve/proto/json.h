// JSON as it comes from and goes to clients. What comes in is bounded in depth; what goes out is valid UTF-8.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::serve {

using Json = nlohmann::ordered_json;  // keeps the order of keys: templates and clients see what was written

// A request's body: an object. Error (invalid_argument): "invalid JSON body".
base::Result<Json> parse_body(std::string_view text);

// Any JSON text, nested at most 128 deep, of at most four million values: each takes some fifty bytes.
base::Result<Json> parse_json(std::string_view text);

// On one line. Malformed UTF-8 inside strings becomes U+FFFD.
std::string to_text(const Json& json);

}  // namespace rafter::serve
