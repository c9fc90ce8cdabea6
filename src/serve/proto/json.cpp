#include "serve/proto/json.h"

namespace rafter::serve {
namespace {

constexpr int kMostNesting = 128;  // what walks a value recursively, a schema or a template, can rely on it

bool is_nested_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostNesting) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

base::Result<Json> parse_json(std::string_view text) {
  if (is_nested_too_deep(text))
    return base::Error{base::ErrorCode::invalid_argument, "JSON is nested too deep", "",
                       "at most 128 levels"};
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return base::Error{base::ErrorCode::invalid_argument, "invalid JSON", "", ""};
  return json;
}

base::Result<Json> parse_body(std::string_view text) {
  auto json = parse_json(text);
  if (!json.ok() && json.error().what == "invalid JSON")
    return base::Error{base::ErrorCode::invalid_argument, "invalid JSON body", "", ""};
  if (!json.ok()) return json.error();
  if (!json->is_object())
    return base::Error{base::ErrorCode::invalid_argument, "invalid JSON body: it must be an object", "", ""};
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace rafter::serve
