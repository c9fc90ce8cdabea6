// Tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "text/jinja_object.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

struct TestEntry {
  std::string_view name;
  bool (*apply)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

const TestEntry* find_test(std::string_view name);  // null if there is none

}  // namespace rafter::text::jinja
