// Python's notation of JSON-like values, which some models write. For implementation files of
// text/output_*.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/output_json.h"

namespace rafter::text::output {

// Copies one Python literal as compact JSON: None, True, False, numbers, strings in either quotes, lists,
// tuples and dicts with string keys. Otherwise as copy_json.
Reading copy_python(Source& in, TextSink& out);

// `text` as one Python literal and nothing but white space around it; or nothing.
std::optional<std::string> json_of_python(std::string_view text);

}  // namespace rafter::text::output
