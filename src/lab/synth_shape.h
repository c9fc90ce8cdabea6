// A named shape as a checkpoint without data: what `rafter synth` would write, to be counted and not read.
#pragma once

#include <string>

#include "base/result.h"
#include "format/checkpoint.h"

namespace rafter::lab {

// Under Hugging Face's names in every format, GGUF's block formats included.
// Errors (invalid_argument): unknown shape or format, a group that the format does not have.
base::Result<format::Checkpoint> shape_without_data(const std::string& shape, const std::string& format,
                                                    int64_t group);

}  // namespace rafter::lab
