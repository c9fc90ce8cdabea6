// A value of a tokenizer file together with its place in it, which is part of every error
// ("tokenizer.json: pre_tokenizer.pretokenizers[1]"). For implementation files only (includes
// nlohmann/json.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"

namespace rafter::text {

class JsonPlace {
 public:
  // Keeps references to `value` and `file`.
  JsonPlace(const nlohmann::json& value, std::string key, const std::string& file)
      : value_(&value), key_(std::move(key)), file_(&file) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& key() const { return key_; }
  bool is_null() const { return value_->is_null(); }

  // A member; null if there is none.
  JsonPlace operator[](const char* name) const;

  // An element of an array. Precondition: it exists.
  JsonPlace element(size_t index) const;

  // The member "type"; empty if it is not a string.
  std::string type() const;

  // Typed members. One that is absent or null is the fallback; one of another type is an error.
  base::Result<bool> flag(const char* name, bool fallback) const;
  base::Result<std::string> text(const char* name, const char* fallback) const;
  base::Result<int64_t> count(const char* name, int64_t fallback, int64_t largest) const;

  // Visits the elements of a member that is an array of a few.
  template <typename Visit>
  base::Status each(const char* name, Visit visit) const {
    constexpr size_t kMostSteps = 64;
    const JsonPlace list = (*this)[name];
    if (!list.value().is_array()) return list.invalid("not an array");
    if (list.value().size() > kMostSteps) {
      return list.unsupported(fmt::format("{} elements are too many", list.value().size()));
    }
    for (size_t i = 0; i < list.value().size(); ++i) RAFTER_TRY(visit(list.element(i)));
    return {};
  }

  base::Error invalid(const std::string& what) const;
  base::Error unsupported(const std::string& what) const;
  base::Error unsupported_type() const;

 private:
  const nlohmann::json* value_;
  std::string key_;
  const std::string* file_;
};

}  // namespace rafter::text
