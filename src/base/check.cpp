#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rafter::base {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "rafter: internal check failed at %s:%d: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace rafter::base
