#include "serve/proto/messages.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "serve/proto/fields.h"

namespace rafter::serve {
namespace {

constexpr size_t kMostMessages = 100'000;

base::Error message_error(size_t index, const std::string& what) {
  return {base::ErrorCode::invalid_argument, fmt::format("messages[{}]: {}", index, what), "messages", ""};
}

const char* json_type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "integer";
    case Json::value_t::number_float:
      return "number";
    case Json::value_t::array:
      return "array";
    case Json::value_t::object:
      return "object";
    default:
      return "string";
  }
}

void type_schema(Json& schema);

std::string inferred_type(const Json& schema) {
  if (const auto values = schema.find("enum");
      values != schema.end() && values->is_array() && !values->empty())
    return json_type_of(values->front());
  if (const auto value = schema.find("const"); value != schema.end()) return json_type_of(*value);
  if (schema.contains("properties")) return "object";
  if (schema.contains("items")) return "array";
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto branches = schema.find(key);
    if (branches == schema.end() || !branches->is_array()) continue;
    for (const Json& branch : *branches) {
      const auto type = branch.is_object() ? branch.find("type") : branch.end();
      if (branch.is_object() && type != branch.end() && type->is_string() && *type != "null")
        return type->get<std::string>();
    }
  }
  return "string";
}

// The schemas below one; depth is bounded by that of the JSON text.
void type_parts(Json& schema) {
  for (const char* key : {"properties", "$defs", "definitions"}) {
    const auto members = schema.find(key);
    if (members == schema.end() || !members->is_object()) continue;
    for (auto& [name, member] : members->items()) type_schema(member);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
    const auto branches = schema.find(key);
    if (branches == schema.end() || !branches->is_array()) continue;
    for (Json& branch : *branches) type_schema(branch);
  }
  if (const auto items = schema.find("items"); items != schema.end()) type_schema(*items);
}

void type_schema(Json& schema) {
  if (!schema.is_object()) return;
  type_parts(schema);
  if (!schema.contains("type") && !schema.contains("$ref")) schema["type"] = inferred_type(schema);
}

// Names of functions by call id, to be filled in where tool messages lack them.
using CallNames = std::map<std::string, std::string>;

base::Status normalise_calls(Json& message, size_t index, CallNames& names) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return {};
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return {};
  }
  if (!calls->is_array()) return message_error(index, "tool_calls must be an array");
  for (Json& call : *calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object() ||
        !function->contains("name") || !(*function)["name"].is_string())
      return message_error(index, "a tool call must have a function with a name");
    Json& arguments = (*function)["arguments"];
    if (arguments.is_null() || arguments == "") arguments = Json::object();
    if (arguments.is_string()) {
      auto parsed = parse_json(arguments.get_ref<const std::string&>());
      if (!parsed.ok()) return message_error(index, "the arguments of a tool call are not JSON");
      arguments = std::move(*parsed);
    }
    if (!arguments.is_object()) return message_error(index, "the arguments of a tool call must be an object");
    const auto id = call.find("id");
    if (id != call.end() && id->is_string()) names[*id] = (*function)["name"];
  }
  return {};
}

void normalise_reasoning(Json& message) {
  for (const char* key : {"reasoning_content", "reasoning"}) {
    const auto text = message.find(key);
    if (text == message.end()) continue;
    if (!text->is_string() || *text == "") {
      message.erase(key);
      continue;
    }
    message["reasoning_content"] = text->get<std::string>();
    return;
  }
}

base::Status normalise_message(Json& message, size_t index, CallNames& names) {
  if (!message.is_object()) return message_error(index, "must be an object");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return message_error(index, "must have a role");
  if (*role == "developer") *role = "system";
  auto text = content_text(message.contains("content") ? message["content"] : Json(nullptr),
                           fmt::format("messages[{}]", index));
  if (!text.ok()) return text.error();
  message["content"] = std::move(*text);
  if (message["role"] == "assistant") {
    RAFTER_TRY(normalise_calls(message, index, names));
    normalise_reasoning(message);
  } else if (message["role"] == "tool" && !message.contains("name")) {
    const auto id = message.find("tool_call_id");
    const auto name =
        id != message.end() && id->is_string() ? names.find(id->get<std::string>()) : names.end();
    if (name != names.end()) message["name"] = name->second;
  }
  return {};
}

bool is_volatile_header(std::string_view line) {
  if (!line.starts_with("x-") && !line.starts_with("X-")) return false;
  const std::string_view name = line.substr(0, line.find(':'));
  if (name.size() == line.size()) return false;
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) return false;
  return lower.ends_with("-header") || lower.find("billing") != std::string::npos ||
         lower.find("cache") != std::string::npos;
}

}  // namespace

base::Result<std::string> content_text(const Json& content, const std::string& where, const char* separator) {
  const auto error = [&](std::string what) {
    return base::Error{base::ErrorCode::invalid_argument, where + ": " + std::move(what), where, ""};
  };
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return error("content must be a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    if (i > 0) text += separator;
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string())
      return error("a content part must have a type");
    const auto& kind = type->get_ref<const std::string&>();
    if (kind.find("image") != std::string::npos || kind.find("audio") != std::string::npos ||
        kind.find("file") != std::string::npos || kind.find("video") != std::string::npos)
      return error("the model takes text only, not " + kind);
    const auto value = part.find(kind == "refusal" ? "refusal" : "text");
    if (value == part.end() || !value->is_string()) return error("a content part must have a text");
    text += value->get_ref<const std::string&>();
  }
  return text;
}

std::string_view strip_volatile_headers(std::string_view system) {
  for (;;) {
    const size_t end = system.find('\n');
    if (!is_volatile_header(system.substr(0, end))) return system;
    system.remove_prefix(end == std::string_view::npos ? system.size() : end + 1);
    while (system.starts_with('\n')) system.remove_prefix(1);
  }
}

base::Result<Json> normalise_messages(const Json* messages) {
  if (messages == nullptr || !messages->is_array() || messages->empty())
    return base::Error{base::ErrorCode::invalid_argument, "messages required", "messages", ""};
  if (messages->size() > kMostMessages) return field_error("messages", "must have at most 100000 elements");
  Json result = *messages;
  CallNames names;
  for (size_t i = 0; i < result.size(); ++i) RAFTER_TRY(normalise_message(result[i], i, names));
  Json& first = result[0];
  if (first["role"] == "system") {
    const std::string text = first["content"];
    first["content"] = std::string(strip_volatile_headers(text));
  }
  return result;
}

base::Result<Json> clean_function(const Json& function) {
  if (!function.is_object()) return field_error("tools", "must describe functions");
  const auto name = function.find("name");
  if (name == function.end() || !name->is_string() || *name == "")
    return field_error("tools", "must have a name for each function");
  Json result = function;
  const auto parameters = result.find("parameters");
  if (parameters == result.end() || parameters->is_null())
    result["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  if (!result["parameters"].is_object()) return field_error("tools", "must have schemas as parameters");
  type_schema(result["parameters"]);
  return result;
}

}  // namespace rafter::serve
