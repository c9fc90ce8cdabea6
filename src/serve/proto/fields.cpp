#include "serve/proto/fields.h"

#include <cmath>

#include <fmt/format.h>

namespace rafter::serve {

base::Error field_error(const std::string& name, std::string what) {
  return {base::ErrorCode::invalid_argument, name + " " + what, name, ""};
}

std::optional<int64_t> integer_of(const Json& json) {
  constexpr double kLimit = 9.2e18;  // below 2^63
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  const double value = json.get<double>();
  if (!(std::abs(value) < kLimit) || value != std::floor(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

base::Status Fields::read(const char* name, std::optional<bool>& out) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return field_error(name, "must be of type bool");
  out = value->get<bool>();
  return {};
}

base::Status Fields::read(const char* name, bool& out) const {
  std::optional<bool> value;
  RAFTER_TRY(read(name, value));
  out = value.value_or(out);
  return {};
}

base::Status Fields::read(const char* name, std::optional<std::string>& out) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) return field_error(name, "must be of type string");
  out = value->get<std::string>();
  return {};
}

base::Status Fields::read(const char* name, std::string& out) const {
  std::optional<std::string> value;
  RAFTER_TRY(read(name, value));
  if (value) out = std::move(*value);
  return {};
}

base::Status Fields::read(const char* name, std::optional<int64_t>& out, int64_t least, int64_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  const auto number = integer_of(*value);
  if (!number) return field_error(name, "must be of type int");
  if (*number < least) return field_error(name, fmt::format("must be at least {}", least));
  if (*number > most) return field_error(name, fmt::format("must be at most {}", most));
  out = *number;
  return {};
}

base::Status Fields::read(const char* name, std::optional<double>& out, double least, double most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_number()) return field_error(name, "must be of type float");
  const double number = value->get<double>();
  if (!(number >= least)) return field_error(name, fmt::format("must be at least {}", least));
  if (!(number <= most)) return field_error(name, fmt::format("must be at most {}", most));
  out = number;
  return {};
}

base::Status Fields::read_object(const char* name, const Json*& out) const {
  out = find(name);
  if (out != nullptr && !out->is_object()) return field_error(name, "must be of type object");
  return {};
}

base::Status Fields::read_array(const char* name, const Json*& out) const {
  out = find(name);
  if (out != nullptr && !out->is_array()) return field_error(name, "must be of type array");
  return {};
}

}  // namespace rafter::serve
