#include "text/tokenizer_json_value.h"

#include "text/quote.h"

namespace rafter::text {

using base::Error;
using base::ErrorCode;
using base::Result;
using json = nlohmann::json;

JsonPlace JsonPlace::operator[](const char* name) const {
  static const json kNull;
  const json* member = &kNull;
  if (value_->is_object()) {
    if (const auto found = value_->find(name); found != value_->end()) member = &*found;
  }
  return JsonPlace(*member, key_.empty() ? name : fmt::format("{}.{}", key_, name), *file_);
}

JsonPlace JsonPlace::element(size_t index) const {
  return JsonPlace((*value_)[index], fmt::format("{}[{}]", key_, index), *file_);
}

std::string JsonPlace::type() const {
  const JsonPlace type = (*this)["type"];
  return type.value().is_string() ? type.value().get<std::string>() : "";
}

Result<bool> JsonPlace::flag(const char* name, bool fallback) const {
  const JsonPlace member = (*this)[name];
  if (member.is_null()) return fallback;
  if (!member.value().is_boolean()) return member.invalid("neither true nor false");
  return member.value().get<bool>();
}

Result<std::string> JsonPlace::text(const char* name, const char* fallback) const {
  const JsonPlace member = (*this)[name];
  if (member.is_null()) return std::string(fallback);
  if (!member.value().is_string()) return member.invalid("not a text");
  return member.value().get<std::string>();
}

Result<int64_t> JsonPlace::count(const char* name, int64_t fallback, int64_t largest) const {
  const JsonPlace member = (*this)[name];
  if (member.is_null()) return fallback;
  if (!member.value().is_number_integer() || member.value() < 0 || member.value() > largest) {
    return member.invalid(fmt::format("not an integer from 0 to {}", largest));
  }
  return member.value().get<int64_t>();
}

Error JsonPlace::invalid(const std::string& what) const {
  return Error{ErrorCode::invalid_data, what, fmt::format("{}: {}", *file_, key_), ""};
}

Error JsonPlace::unsupported(const std::string& what) const {
  return Error{ErrorCode::unsupported, what, fmt::format("{}: {}", *file_, key_), ""};
}

Error JsonPlace::unsupported_type() const {
  if (is_null()) return unsupported("null is not supported");
  return unsupported(fmt::format("type {} is not supported", quote(type())));
}

}  // namespace rafter::text
