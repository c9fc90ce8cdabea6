// str() and repr(), as Python prints values.
#pragma once

#include <string>

#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

void append_str(Builder& out, const Value& value, Runtime& runtime);
void append_repr(Builder& out, const Value& value, Runtime& runtime);
Text to_text(const Value& value, Runtime& runtime);         // str(value)
std::string repr_of(const Value& value, Runtime& runtime);  // repr(value), for messages and keys
Value to_string_value(const Value& value,
                      Runtime& runtime);  // soft_str: a string stays what it is, Markup included

// 1.0, 1e+16, 1e-05, inf, nan: the shortest digits that read back the same.
std::string real_repr(double value);

}  // namespace rafter::text::jinja
