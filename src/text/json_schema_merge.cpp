// Two schemas without applicators as one.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "text/json_schema_document.h"

namespace rafter::text::schema {
namespace {

Json nothing() { return false; }  // a schema that no value satisfies

const Json* find(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : &*found;
}

Json both(const Json& a, const Json& b) {
  if (a == b || b == Json(true)) return a;
  if (a == Json(true)) return b;
  if (a == nothing() || b == nothing()) return nothing();
  return Json::object({{"allOf", Json::array({a, b})}});
}

// The types of a schema with `nullable` told; null: any.
Json types_of(const Json& schema) {
  const Json* type = find(schema, "type");
  if (type == nullptr) return nullptr;
  Json types = type->is_array() ? *type : Json::array({*type});
  const Json* nullable = find(schema, "nullable");
  if (nullable != nullptr && *nullable == Json(true)) types.push_back("null");
  return types;
}

Json common_types(const Json& a, const Json& b) {
  const auto has = [](const Json& types, const char* name) {
    return std::find(types.begin(), types.end(), Json(name)) != types.end();
  };
  Json result = Json::array();
  for (const char* name : {"null", "boolean", "integer", "number", "string", "array", "object"}) {
    const bool is_integer = std::string_view(name) == "integer";
    const auto takes = [&](const Json& types) {
      return has(types, name) || (is_integer && has(types, "number"));
    };
    if (takes(a) && takes(b) && !(is_integer && has(a, "number") && has(b, "number"))) result.push_back(name);
  }
  return result;
}

// Properties that only one schema names are for the other one additional.
void merge_objects(const Json& a, const Json& b, Json& result) {
  const auto properties = [](const Json& schema) {
    const Json* found = find(schema, "properties");
    return found != nullptr && found->is_object() ? *found : Json::object();
  };
  const auto additional = [](const Json& schema) {
    const Json* found = find(schema, "additionalProperties");
    return found != nullptr ? *found : Json(true);
  };
  const Json left = properties(a), right = properties(b);
  Json all = Json::object();
  for (const auto& [name, schema] : left.items()) {
    all[name] = both(schema, right.contains(name) ? right[name] : additional(b));
  }
  for (const auto& [name, schema] : right.items()) {
    if (!left.contains(name)) all[name] = both(schema, additional(a));
  }
  if (find(a, "properties") != nullptr || find(b, "properties") != nullptr)
    result["properties"] = std::move(all);
  if (find(a, "additionalProperties") != nullptr || find(b, "additionalProperties") != nullptr) {
    result["additionalProperties"] = both(additional(a), additional(b));
  }
  if (find(a, "required") == nullptr || find(b, "required") == nullptr) return;
  for (const Json& name : *find(b, "required")) {
    Json& required = result["required"];
    if (std::find(required.begin(), required.end(), name) == required.end()) required.push_back(name);
  }
}

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Of a keyword that both have. Returns false if nothing satisfies both.
bool merge_keyword(const std::string& key, Json& into, const Json& other, const std::string& pointer) {
  if (into == other || is_one_of(key, {"properties", "required", "additionalProperties", "type", "nullable"}))
    return true;
  const bool numbers = into.is_number() && other.is_number();
  if (numbers && is_one_of(key, {"minimum", "exclusiveMinimum", "minLength", "minItems"})) {
    into = std::max(into, other);
  } else if (numbers && is_one_of(key, {"maximum", "exclusiveMaximum", "maxLength", "maxItems"})) {
    into = std::min(into, other);
  } else if (key == "enum" && into.is_array() && other.is_array()) {
    Json common = Json::array();
    for (const Json& value : into) {
      if (std::find(other.begin(), other.end(), value) != other.end()) common.push_back(value);
    }
    into = std::move(common);
    return !into.empty();
  } else if (key == "const") {
    return false;
  } else if (key == "items") {
    into = both(into, other);
  } else if (key == "multipleOf" && into.is_number_unsigned() && other.is_number_unsigned() &&
             into.get<uint64_t>() - 1 < 1000 && other.get<uint64_t>() - 1 < 1000) {
    into = std::lcm(into.get<uint64_t>(), other.get<uint64_t>());
  } else {
    refuse(pointer, "", fmt::format("combines two different {}", key));
  }
  return true;
}

}  // namespace

Json merge(const Json& a, const Json& b, const std::string& pointer) {
  if (b.empty()) return a;
  if (a.empty()) return b;
  const auto is_list = [](const Json& schema) {
    return schema.contains("items") || schema.contains("prefixItems");
  };
  if ((a.contains("prefixItems") && is_list(b)) || (b.contains("prefixItems") && is_list(a))) {
    refuse(pointer, "prefixItems", "is not supported in a combination of schemas for lists");
  }
  Json result = a;
  for (const auto& [key, value] : b.items()) {
    if (!result.contains(key)) {
      result[key] = value;
    } else if (!merge_keyword(key, result[key], value, pointer)) {
      return nothing();
    }
  }
  const Json left = types_of(a), right = types_of(b);
  if (!left.is_null() || !right.is_null()) {
    result.erase("nullable");
    result["type"] = left.is_null() ? right : right.is_null() ? left : common_types(left, right);
    if (result["type"].empty()) return nothing();
  }
  merge_objects(a, b, result);
  return result;
}

}  // namespace rafter::text::schema
