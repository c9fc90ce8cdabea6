// Filters: `value | name(arguments)`. One table names them all; each family has its own source.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja_object.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

struct FilterEntry {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

const FilterEntry* find_filter(std::string_view name);  // null if there is none

// The families' tables.
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> selection_filters();  // lazy ones that apply filters and tests by name
std::span<const FilterEntry> value_filters();

}  // namespace rafter::text::jinja
