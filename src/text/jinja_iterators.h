// Iterators of filters.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "text/jinja_object.h"

namespace rafter::text::jinja {

// Yields what a function yields, until it says false.
class FunctionIterator : public Iterator {
 public:
  FunctionIterator(int depth, std::function<bool(Value&)> next) : next_(std::move(next)) { nesting = depth; }
  bool next(Value& item) override { return next_(item); }

 private:
  std::function<bool(Value&)> next_;
};

// The value under a filter's `attribute` argument: "a.b.0" is item["a"]["b"][0], an integer is an index, None
// the item itself.
class AttributePath {
 public:
  AttributePath(const Value& attribute, Runtime& runtime);
  // An undefined step becomes `fallback`, unless that is null or None.
  Value get(Value item, Runtime& runtime, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

// A string in lower case, anything else as it is: how sorting and the like ignore case.
Value ignore_case(const Value& value, Runtime& runtime);

}  // namespace rafter::text::jinja
