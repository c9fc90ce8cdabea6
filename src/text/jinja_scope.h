// Which variable a name means. Jinja decides that when it compiles a template, scope by scope, from what the
// scope reads and sets anywhere in it; the order of execution plays no part. This pass does the same and
// leaves slots in the tree. It also binds filters and tests, and refuses what the reference's compiler
// refuses.
#pragma once

#include "text/jinja_ast.h"

namespace rafter::text::jinja {

void resolve_scopes(Tree& tree);

}  // namespace rafter::text::jinja
