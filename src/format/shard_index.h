// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::format {

// Tensor name → file name. Every file name is one path component that ends in .safetensors.
base::Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text,
                                                                   const std::string& where);

}  // namespace rafter::format
