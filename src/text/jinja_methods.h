// Attributes and methods of values, and Jinja's two ways to reach them.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja_object.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

// value.name: an attribute, else an item, else undefined. Underscored names and methods that change a list or
// dict are out of reach (undefined), as in the reference's sandbox; the latter only unless the runtime allows
// mutation.
Value get_attribute(const Value& value, std::string_view name, Runtime& runtime);
// value[key]: an item, else (for a string) an attribute, else undefined.
Value get_subscript(const Value& value, const Value& key, Runtime& runtime);
// Python's getattr(value, name), or nothing.
std::optional<Value> find_attribute(const Value& value, std::string_view name, Runtime& runtime);

using MethodBody = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);
struct Method {
  std::string_view name;
  MethodBody body;
};

MethodBody find_text_method(std::string_view name);  // null if str has none of that name
MethodBody find_container_method(Kind kind, std::string_view name);
bool is_mutator(Kind kind, std::string_view name);
// list.count, list.index for anything that is a sequence.
std::optional<Value> sequence_method(const Value& self, std::string_view name, Runtime& runtime);

}  // namespace rafter::text::jinja
