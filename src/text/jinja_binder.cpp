#include "text/jinja_binder.h"

#include <algorithm>
#include <string>

#include "text/jinja_number.h"
#include "text/jinja_operators.h"

namespace rafter::text::jinja {

Binder::Binder(std::string_view function, const Arguments& arguments,
               std::initializer_list<std::string_view> names, size_t required)
    : function_(function) {
  std::copy(names.begin(), names.end(), names_.begin());
  const size_t count = names.size();
  if (arguments.positional.size() > count) {
    fail(FailureKind::type, "{}() takes at most {} argument(s) ({} given)", function, count,
         arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      fail(FailureKind::type, "{}() got an unexpected keyword argument '{}'", function, name);
    }
    const auto index = static_cast<size_t>(known - names.begin());
    if (values_[index] != nullptr)
      fail(FailureKind::type, "{}() got multiple values for argument '{}'", function, name);
    values_[index] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail(FailureKind::type, "{}() is missing an argument", function);
  }
}

bool Binder::truth(size_t parameter, bool fallback) const {
  return has(parameter) ? truthy(at(parameter)) : fallback;
}

int64_t Binder::integer(size_t parameter, int64_t fallback) const {
  return has(parameter) ? require_integer(at(parameter), function_) : fallback;
}

std::string_view Binder::text(size_t parameter) const {
  const Value& value = at(parameter);
  if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
  if (!value.is_string())
    fail(FailureKind::type, "{}() argument must be str, not {}", function_, value.type_name());
  return value.text();
}

}  // namespace rafter::text::jinja
