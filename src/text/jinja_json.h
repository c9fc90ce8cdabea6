// JSON to and from Values, as Python's json module: integers and floats stay distinct, key order is kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // one level's indentation; nothing: all on one line
  Text item_separator{", "};
  Text key_separator{": "};
};

Text to_json(const Value& value, const JsonStyle& style, Runtime& runtime);

// Objects nested more than kMaxNesting deep, malformed JSON and malformed UTF-8 are errors. Strings get
// `origin`.
base::Result<Value> parse_json(std::string_view text, Origin origin = Origin::input);

}  // namespace rafter::text::jinja
