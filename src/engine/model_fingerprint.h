// Which checkpoint a saved sequence belongs to.
#pragma once

#include <cstdint>
#include <string>

#include "format/checkpoint.h"

namespace rafter::engine {

// xxh64 of the checkpoint's config and headers, of 256 bytes in the middle of each tensor (fine-tunes differ
// nowhere else), and of what else decides a row's bits. Reads a page of every tensor.
uint64_t model_fingerprint(const format::Checkpoint& checkpoint, const std::string& computed_by);

}  // namespace rafter::engine
