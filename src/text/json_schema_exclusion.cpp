// oneOf: exactly one alternative may take a value. Held where no value that is written for one can satisfy
// another: by type, by values, by ranges of numbers, by members that one demands and another cannot have.
// Other choices are refused.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "text/json_schema_document.h"

namespace rafter::text::schema {
namespace {

constexpr int kMostDepth = 16;

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

// The types that a schema names, integers as numbers; nothing if it names none: then it takes every type.
std::optional<std::set<std::string>> named_types(const Json& schema) {
  const Json* type = find(schema, "type");
  if (type == nullptr) return std::nullopt;
  std::set<std::string> types;
  for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
    if (name.is_string()) types.insert(name == "integer" ? "number" : name.get<std::string>());
  }
  if (const Json* nullable = find(schema, "nullable"); nullable != nullptr && *nullable == Json(true))
    types.insert("null");
  return types;
}

std::optional<std::vector<Json>> values_of(const Json& schema) {
  if (const Json* value = find(schema, "const")) return std::vector<Json>{*value};
  if (const Json* values = find(schema, "enum"); values != nullptr && values->is_array())
    return std::vector<Json>(values->begin(), values->end());
  return std::nullopt;
}

const char* type_of(const Json& value) {
  return value.is_object()    ? "object"
         : value.is_array()   ? "array"
         : value.is_string()  ? "string"
         : value.is_boolean() ? "boolean"
         : value.is_null()    ? "null"
                              : "number";
}

double bound(const Json& schema, const char* inclusive, const char* exclusive, double none) {
  for (const char* keyword : {inclusive, exclusive}) {
    const Json* value = find(schema, keyword);
    if (value != nullptr && value->is_number()) return value->get<double>();
  }
  return none;
}

bool requires_member(const Json& schema, const std::string& name) {
  const Json* required = find(schema, "required");
  return required != nullptr && required->is_array() &&
         std::find(required->begin(), required->end(), Json(name)) != required->end();
}

class Exclusion {
 public:
  explicit Exclusion(Document& document) : document_(document) {}

  // Whether no value that is written for a schema satisfies another.
  bool holds(const Json& one, const Json& other, const std::string& pointer, int depth) {
    if (depth > kMostDepth) return false;
    for (const Json* a : document_.alternatives(one, pointer)) {
      for (const Json* b : document_.alternatives(other, pointer)) {
        if (!holds_of_plain(*a, *b, pointer, depth)) return false;
      }
    }
    return true;
  }

 private:
  bool holds_of_plain(const Json& a, const Json& b, const std::string& pointer, int depth) {
    const auto a_values = values_of(a), b_values = values_of(b);
    const auto a_types = named_types(a), b_types = named_types(b);
    if (a_values) {
      return std::all_of(a_values->begin(), a_values->end(), [&](const Json& value) {
        if (b_values) return std::find(b_values->begin(), b_values->end(), value) == b_values->end();
        return b_types && !b_types->contains(type_of(value));
      });
    }
    if (!a_types) return false;
    std::set<std::string> common;
    for (const std::string& type : *a_types) {
      const bool may_be = b_values ? std::any_of(b_values->begin(), b_values->end(),
                                                 [&](const Json& value) { return type_of(value) == type; })
                                   : !b_types || b_types->contains(type);
      if (may_be) common.insert(type);
    }
    return std::all_of(common.begin(), common.end(), [&](const std::string& type) {
      return (type == "object" && !b_values && members_part(a, b, pointer, depth)) ||
             (type == "number" && !b_values && ranges_part(a, b));
    });
  }

  static bool ranges_part(const Json& a, const Json& b) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double a_low = bound(a, "minimum", "exclusiveMinimum", -kInfinity);
    const double a_high = bound(a, "maximum", "exclusiveMaximum", kInfinity);
    const double b_low = bound(b, "minimum", "exclusiveMinimum", -kInfinity);
    const double b_high = bound(b, "maximum", "exclusiveMaximum", kInfinity);
    return a_high < b_low || b_high < a_low;
  }

  bool members_part(const Json& a, const Json& b, const std::string& pointer, int depth) {
    const Json none = Json::object();
    const Json* a_members = find(a, "properties");
    const Json* b_members = find(b, "properties");
    if (a_members == nullptr) a_members = &none;
    if (b_members == nullptr) b_members = &none;
    if (!a_members->is_object() || !b_members->is_object()) return false;
    // What is written for `a` has the members that it names and no others, unless it says so.
    const Json* additional = find(a, "additionalProperties");
    const bool a_is_closed = additional == nullptr ? a.contains("properties") : *additional == Json(false);
    if (const Json* required = find(b, "required");
        a_is_closed && required != nullptr && required->is_array()) {
      for (const Json& name : *required) {
        if (name.is_string() && !a_members->contains(name.get_ref<const std::string&>())) return true;
      }
    }
    const Json* b_additional = find(b, "additionalProperties");
    for (const auto& [name, schema] : a_members->items()) {
      const bool is_there = requires_member(a, name);
      if (!b_members->contains(name)) {
        if (is_there && b_additional != nullptr && *b_additional == Json(false)) return true;
        continue;
      }
      if ((is_there || requires_member(b, name)) && holds(schema, (*b_members)[name], pointer, depth + 1))
        return true;
    }
    return false;
  }

  Document& document_;
};

}  // namespace

void Document::check_one_of(const Json& list, const std::string& pointer) {
  Exclusion exclusion(*this);
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < list.size(); ++j) {
      if (i == j || exclusion.holds(list[i], list[j], pointer, 0)) continue;
      refuse(pointer, "oneOf",
             "of alternatives that may both take a value (" + std::to_string(std::min(i, j)) + " and " +
                 std::to_string(std::max(i, j)) + ") is not supported; use anyOf");
    }
  }
}

}  // namespace rafter::text::schema
