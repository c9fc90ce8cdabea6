// What this binary is: filled in by the build.
#pragma once

namespace rafter::base {

const char* version();     // "0.1.0"
const char* git_commit();  // twelve hex digits, or "unknown" outside a checkout
const char* build_type();  // "Release"
const char* compiler();    // "GNU 12.2.0"

}  // namespace rafter::base
