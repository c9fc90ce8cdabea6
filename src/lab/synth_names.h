// Looks an entry of a table up by its name.
#pragma once

#include <span>
#include <string>

#include <fmt/format.h>

#include "base/result.h"

namespace rafter::lab {

// Error (invalid_argument): no such entry; `what` says of what, the hint lists the names.
template <typename Entry>
base::Result<const Entry*> find_by_name(std::span<const Entry> table, const std::string& name,
                                        const char* what) {
  std::string names;
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return base::Error{base::ErrorCode::invalid_argument, fmt::format("unknown {} \"{}\"", what, name), "synth",
                     "known: " + names};
}

}  // namespace rafter::lab
