// Text from values: printf-style `%`, str.format, and HTML escaping.
#pragma once

#include <string_view>

#include "text/jinja_object.h"
#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

// template % arguments.
Value format_percent(const Value& format, const Value& arguments, Runtime& runtime);
// template.format(*positional, **named).
Value format_braces(const Value& format, const Arguments& arguments, Runtime& runtime);
// format(value, spec).
Text format_value(const Value& value, const Text& spec, Runtime& runtime);

// & < > ' " as entities.
Text escape_html(const Text& text, Meter& meter);
// markupsafe.escape(value): Markup stays, everything else is printed and escaped.
Value escape_value(const Value& value, Runtime& runtime);
// Without tags and comments, spaces collapsed, entities resolved (numeric ones and the common names).
Text strip_tags(const Text& text, Meter& meter);

// Pads to `width` code points with the fill character; `align` is <, > or ^.
Text pad(const Text& text, int64_t width, const Text& fill, char align, Meter& meter);
Text pad_sides(const Text& text, uint64_t left, uint64_t right, const Text& fill, Meter& meter);

}  // namespace rafter::text::jinja
