// The environment variables that the program reads, in one table.
#pragma once

#include <span>
#include <string>

namespace rafter::cli {

struct EnvironmentVariable {
  const char* name;
  const char* meaning;
};

std::span<const EnvironmentVariable> environment_variables();

// The table as `rafter help environment` prints it.
std::string environment_help();

}  // namespace rafter::cli
