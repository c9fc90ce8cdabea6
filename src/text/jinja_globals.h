// The names that every template knows: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

std::optional<Value> make_global(std::string_view name, Runtime& runtime);

}  // namespace rafter::text::jinja
