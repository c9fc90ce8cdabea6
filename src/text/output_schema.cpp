#include "text/output_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/output_json.h"
#include "text/output_python.h"

namespace rafter::text {
namespace {

using nlohmann::json;

constexpr int kMaxSchemaNesting = 32;  // what is deeper declares nothing
const ArgumentSchema kAnything;

JsonTypes type_named(const std::string& name) {
  static const std::map<std::string, JsonTypes> kNames = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberType},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  std::string lower;
  for (const char c : name) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto found = kNames.find(lower);
  return found == kNames.end() ? 0 : found->second;
}

JsonTypes type_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return kNullType;
    case json::value_t::boolean:
      return kBooleanType;
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return kIntegerType;
    case json::value_t::number_float:
      return kNumberType;
    case json::value_t::string:
      return kStringType;
    case json::value_t::array:
      return kArrayType;
    case json::value_t::object:
      return kObjectType;
    default:
      return 0;
  }
}

JsonTypes declared_types(const json& schema) {
  JsonTypes types = 0;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) types |= type_named(*type);
    for (const json& name : type->is_array() ? *type : json::array()) {
      if (name.is_string()) types |= type_named(name);
    }
  }
  if (types == 0 && schema.contains("enum") && schema["enum"].is_array()) {
    for (const json& value : schema["enum"]) types |= type_of(value);
  }
  if (types == 0 && schema.contains("const")) types |= type_of(schema["const"]);
  if (types != 0 && schema.contains("nullable") && schema["nullable"] == true) types |= kNullType;
  return types;
}

ArgumentSchema schema_of(const json& source, int nesting) {
  ArgumentSchema schema;
  if (!source.is_object() || nesting == kMaxSchemaNesting) return schema;
  schema.types = declared_types(source);
  for (const char* choice : {"anyOf", "oneOf"}) {
    const auto branches = source.find(choice);
    if (branches == source.end() || !branches->is_array()) continue;
    for (const json& branch : *branches) {
      ArgumentSchema one = schema_of(branch, nesting + 1);
      if (one.types == 0) return {};  // a branch that takes anything
      schema.types |= one.types;
      schema.properties.merge(one.properties);
      if (schema.items.empty()) schema.items = std::move(one.items);
    }
  }
  if (const auto properties = source.find("properties");
      properties != source.end() && properties->is_object()) {
    if (schema.types == 0) schema.types = kObjectType;
    for (const auto& [name, property] : properties->items())
      schema.properties[name] = schema_of(property, nesting + 1);
  }
  if (const auto items = source.find("items"); items != source.end() && items->is_object()) {
    if (schema.types == 0) schema.types = kArrayType;
    schema.items = {schema_of(*items, nesting + 1)};
  }
  return schema;
}

base::Error invalid_tools(std::string what) {
  return {base::ErrorCode::invalid_argument, std::move(what), "tools", ""};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && output::is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && output::is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

// "1.0" as the integer that it is.
std::string_view as_integer(std::string_view number) {
  const size_t point = number.find('.');
  if (point == std::string_view::npos) return number;
  return number.find_first_not_of('0', point + 1) == std::string_view::npos ? number.substr(0, point)
                                                                            : number;
}

JsonTypes type_of_json(std::string_view compact) {
  switch (compact.front()) {
    case '{':
      return kObjectType;
    case '[':
      return kArrayType;
    case '"':
      return kStringType;
    case 't':
    case 'f':
      return kBooleanType;
    case 'n':
      return kNullType;
    default:
      return as_integer(compact).find_first_of(".eE") == std::string_view::npos ? kIntegerType | kNumberType
                                                                                : kNumberType;
  }
}

// The value of one declared type; nothing if the text is none.
std::optional<std::string> value_of_type(std::string_view text, JsonTypes type) {
  const std::string_view word = trimmed(text);
  if (type == kIntegerType || type == kNumberType) {
    if (!output::is_json_number(word)) return std::nullopt;
    return std::string(type == kIntegerType ? as_integer(word) : word);
  }
  if (type == kBooleanType) {
    const std::string lower = lower_case(word);
    if (lower != "true" && lower != "false") return std::nullopt;
    return lower;
  }
  std::optional<std::string> value = output::compact_json(word, output::JsonRules::tolerant);
  if (!value) value = output::json_of_python(word);
  if (value && (type_of_json(*value) & type) == 0) return std::nullopt;
  return value;
}

}  // namespace

const ArgumentSchema& ArgumentSchema::property(std::string_view name) const {
  const auto found = properties.find(name);
  return found == properties.end() ? kAnything : found->second;
}

const ArgumentSchema& ArgumentSchema::item() const { return items.empty() ? kAnything : items.front(); }

base::Result<ToolSchemas> ToolSchemas::from_json(std::string_view tools_json) {
  if (!output::compact_json(tools_json, output::JsonRules::strict)) {  // bounds the nesting too
    return invalid_tools("not JSON, or nested too deep");
  }
  const json tools = json::parse(tools_json, nullptr, false);
  if (tools.is_null()) return ToolSchemas();
  if (!tools.is_array()) return invalid_tools("not an array");
  ToolSchemas schemas;
  for (const json& tool : tools) {
    if (!tool.is_object()) return invalid_tools("an element is not an object");
    const json& function =
        tool.contains("function") && tool["function"].is_object() ? tool["function"] : tool;
    if (!function.contains("name") || !function["name"].is_string()) continue;
    const char* key = function.contains("input_schema") ? "input_schema" : "parameters";
    schemas.tools_[function["name"]] =
        function.contains(key) ? schema_of(function[key], 0) : ArgumentSchema();
  }
  return schemas;
}

const ArgumentSchema* ToolSchemas::find(std::string_view function) const {
  const auto found = tools_.find(function);
  return found == tools_.end() ? nullptr : &found->second;
}

std::string argument_json(std::string_view text, JsonTypes declared) {
  if ((declared & kNullType) != 0) {
    const std::string_view word = trimmed(text);
    if (word == "null" || (word == "None" && (declared & kStringType) == 0)) return "null";
    declared &= ~kNullType;
    if (declared == 0) return output::json_quoted(text);
  }
  if ((declared & kIntegerType) != 0 && (declared & kNumberType) != 0) declared &= ~kIntegerType;
  if (declared == kStringType) return output::json_quoted(text);
  std::optional<std::string> value;
  if ((declared & (declared - 1)) == 0 && declared != 0) {
    value = value_of_type(text, declared);
  } else {
    value = output::compact_json(text, output::JsonRules::strict);
    // A union that takes strings takes a text that is none of its other types as it stands.
    if (value && declared != 0 && (declared & type_of_json(*value)) == 0) value.reset();
    if (value && (declared & kStringType) != 0 && type_of_json(*value) == kStringType) value.reset();
  }
  return value ? std::move(*value) : output::json_quoted(text);
}

}  // namespace rafter::text
