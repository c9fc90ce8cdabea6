// Walking the tree for the names in it, in the order in which the reference's visitors meet them.
#pragma once

#include <functional>
#include <string>

#include "text/jinja_ast.h"

namespace rafter::text::jinja {

enum class NameUse : uint8_t { load, store, parameter };
using OnName = std::function<void(const std::string& name, NameUse use, int line)>;

// Direct children of an expression, first to last.
void for_each_child(Expression& expression, const std::function<void(Expression&)>& visit);
void walk_names(Expression* expression, const OnName& on_name);  // null is nothing
void walk_names(const Target& target, NameUse use, const OnName& on_name);
// Everything in the body, nested macros and loops included; blocks are left out.
void walk_names(const Body& body, const OnName& on_name);
void walk_names(const Statement& statement, const OnName& on_name);

}  // namespace rafter::text::jinja
