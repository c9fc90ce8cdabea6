// Typed fields of a request's JSON object. Absent and null mean the same: not given. Numbers that should be
// integers are accepted as 5 or 5.0; strings are not coerced. Errors (invalid_argument) name the field in
// `where`: "top_k must be of type int", "top_k must be at least 0", "top_k must be at most 10".
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "serve/proto/json.h"

namespace rafter::serve {

class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  // Null if it is not there or is null.
  const Json* find(const char* name) const;

  base::Status read(const char* name, bool& out) const;
  base::Status read(const char* name, std::optional<bool>& out) const;
  base::Status read(const char* name, std::string& out) const;
  base::Status read(const char* name, std::optional<std::string>& out) const;
  base::Status read(const char* name, std::optional<int64_t>& out, int64_t least,
                    int64_t most = std::numeric_limits<int64_t>::max()) const;
  base::Status read(const char* name, std::optional<double>& out, double least, double most) const;
  // An object or nothing.
  base::Status read_object(const char* name, const Json*& out) const;
  base::Status read_array(const char* name, const Json*& out) const;

 private:
  const Json& object_;
};

// An integer written as 5 or 5.0, within int64.
std::optional<int64_t> integer_of(const Json& json);

base::Error field_error(const std::string& name, std::string what);  // "NAME what"

}  // namespace rafter::serve
