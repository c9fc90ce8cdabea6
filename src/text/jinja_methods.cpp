#include "text/jinja_methods.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_binder.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace rafter::text::jinja {
namespace {

std::string type_in_message(const Value& value) {
  return value.is_none() ? "None" : value.type_name() + " object";
}

// Attributes of int and float that are plain values.
std::optional<Value> number_attribute(const Value& value, std::string_view name, Runtime& runtime) {
  const bool real = value.is(Kind::real);
  if (name == "real") return real ? value : Value::integer(value.as_integer());
  if (name == "imag") return real ? Value::real(0) : Value::integer(0);
  if (!real && name == "numerator") return Value::integer(value.as_integer());
  if (!real && name == "denominator") return Value::integer(1);
  if (real && name == "is_integer") {
    return runtime.function(
        "is_integer",
        [](Runtime&, const Value& self, const Arguments& arguments) {
          Binder("is_integer", arguments, {});
          return Value::boolean(std::isfinite(self.as_real()) &&
                                std::floor(self.as_real()) == self.as_real());
        },
        value);
  }
  if (!real && name == "bit_length") {
    return runtime.function(
        "bit_length",
        [](Runtime&, const Value& self, const Arguments& arguments) {
          Binder("bit_length", arguments, {});
          auto magnitude = static_cast<uint64_t>(self.as_integer());
          if (self.as_integer() < 0) magnitude = uint64_t{0} - magnitude;
          return Value::integer(64 - (magnitude == 0 ? 64 : __builtin_clzll(magnitude)));
        },
        value);
  }
  return std::nullopt;
}

std::optional<Value> bound_method(const Value& value, std::string_view name, MethodBody body,
                                  Runtime& runtime) {
  if (body == nullptr) return std::nullopt;
  return runtime.function(std::string(name), body, value);
}

std::optional<Value> container_attribute(const Value& value, std::string_view name, Runtime& runtime) {
  if (is_mutator(value.kind(), name) && !runtime.allow_mutation) {
    return runtime.undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, value.type_name()));
  }
  if (value.is(Kind::tuple) && value.as_sequence().is_group) {
    if (name == "grouper") return value.as_sequence().items[0];
    if (name == "list") return value.as_sequence().items[1];
  }
  return bound_method(value, name, find_container_method(value.kind(), name), runtime);
}

}  // namespace

std::optional<Value> find_attribute(const Value& value, std::string_view name, Runtime& runtime) {
  if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
  if (name.starts_with('_')) return std::nullopt;
  switch (value.kind()) {
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return number_attribute(value, name, runtime);
    case Kind::string:
      return bound_method(value, name, find_text_method(name), runtime);
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return container_attribute(value, name, runtime);
    case Kind::object:
      return value.as_object().attribute(value, name, runtime);
    default:
      return std::nullopt;
  }
}

Value get_attribute(const Value& value, std::string_view name, Runtime& runtime) {
  if (auto found = find_attribute(value, name, runtime)) return *found;
  if (value.is(Kind::dict)) {
    if (const Value* item = value.as_dict().find(name)) return *item;
  }
  return runtime.undefined(fmt::format("'{}' has no attribute '{}'", type_in_message(value), name));
}

Value get_subscript(const Value& value, const Value& key, Runtime& runtime) {
  if (auto item = get_item(value, key, runtime)) return *item;
  if (key.is_string()) {
    if (auto attribute = find_attribute(value, key.text(), runtime)) return *attribute;
    constexpr size_t kLongestNamed = 80;
    const std::string_view name = key.text();
    if (name.size() > kLongestNamed) {
      return runtime.undefined(fmt::format("'{}' has no such attribute", type_in_message(value)));
    }
    return runtime.undefined(fmt::format("'{}' has no attribute '{}'", type_in_message(value), name));
  }
  if (!key.is_int()) return runtime.undefined(type_in_message(value) + " has no such element");
  return runtime.undefined(fmt::format("{} has no element {}", type_in_message(value), key.as_integer()));
}

}  // namespace rafter::text::jinja
