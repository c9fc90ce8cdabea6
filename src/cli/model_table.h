// Registry records as people and programs read them.
#pragma once

#include <string>
#include <vector>

#include "store/registry.h"

namespace rafter::cli {

// A table with a heading, one line per record; says so when there are none.
std::string model_table(const std::vector<store::ModelRecord>& records);

// A JSON array of objects, and a newline.
std::string model_json(const std::vector<store::ModelRecord>& records);

}  // namespace rafter::cli
