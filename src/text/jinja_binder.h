// Binder: the arguments of a call matched to a function's parameters, as Python matches them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "text/jinja_object.h"

namespace rafter::text::jinja {

class Binder {
 public:
  // `names` are the parameters in order, the first `required` of them without a default. Names that begin
  // with `/` can be given by position only.
  Binder(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
         size_t required = 0);

  bool has(size_t parameter) const { return values_[parameter] != nullptr; }
  const Value& at(size_t parameter) const { return *values_[parameter]; }
  Value value(size_t parameter, Value fallback = {}) const {
    return has(parameter) ? at(parameter) : fallback;
  }
  bool truth(size_t parameter, bool fallback) const;          // of any value
  int64_t integer(size_t parameter, int64_t fallback) const;  // fails for what is no int
  std::string_view text(size_t parameter) const;              // fails for what is no string

 private:
  static constexpr size_t kMostParameters = 6;
  std::string_view function_;
  std::array<std::string_view, kMostParameters> names_{};
  std::array<const Value*, kMostParameters> values_{};
};

}  // namespace rafter::text::jinja
