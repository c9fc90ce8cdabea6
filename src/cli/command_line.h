// The command line as a whole: finds the verb, reads its flags, runs it, turns its outcome into an exit code.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::cli {

// 0 done, 1 failed, 2 usage, 3 refused for memory or context, 4 interrupted.
int exit_code_of(const base::Error& error);

// `arguments` without the program's own name. Prints to standard output and error; returns the exit code.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace rafter::cli
