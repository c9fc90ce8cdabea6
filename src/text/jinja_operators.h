// The operators of Python's data model over Values: truth, equality, order, hashing, arithmetic, membership,
// indexing. Errors are Failures with Python's wording.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja_object.h"
#include "text/jinja_value.h"

namespace rafter::text::jinja {

bool truthy(const Value& value);
bool equals(const Value& a, const Value& b, Meter& meter);
bool is_same(const Value& a, const Value& b);                      // Python's `is`
bool less(const Value& a, const Value& b, Meter& meter);           // a < b; fails where Python has no order
bool less_or_equal(const Value& a, const Value& b, Meter& meter);  // a <= b
uint64_t hash_value(const Value& value, Meter& meter);             // fails for lists and dicts
uint64_t hash_text(std::string_view text);
bool contains(const Value& container, const Value& item, Runtime& runtime);

Value add(const Value& a, const Value& b, Runtime& runtime);
Value subtract(const Value& a, const Value& b, Runtime& runtime);
Value multiply(const Value& a, const Value& b, Runtime& runtime);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
Value modulo(const Value& a, const Value& b, Runtime& runtime);  // % formats when `a` is a string
Value power(const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

std::optional<size_t> try_length(const Value& value);  // nothing: no len()
size_t length(const Value& value);
bool is_iterable(const Value& value, Runtime& runtime);
std::unique_ptr<Iterator> iterate(const Value& value, Runtime& runtime);
std::unique_ptr<Iterator> iterate_backwards(const Value& value, Runtime& runtime);
std::vector<Value> to_vector(const Value& value, Runtime& runtime);  // list(value)

// value[key], or nothing where Python raises TypeError or LookupError. Fails for undefined.
std::optional<Value> get_item(const Value& value, const Value& key, Runtime& runtime);
// value[start:stop:step]; each bound may be None.
Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                Runtime& runtime);

// Sorts as sorted(items, key=keys, reverse=reverse): stable, by less(). `keys` are in the items' order.
std::vector<Value> sorted(std::vector<Value> items, const std::vector<Value>& keys, bool reverse,
                          Meter& meter);

}  // namespace rafter::text::jinja
