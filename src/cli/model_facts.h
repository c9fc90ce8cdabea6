// What the registry records of a model, read from its headers alone.
#pragma once

#include <string>

#include "base/result.h"
#include "format/checkpoint.h"
#include "store/model_scan.h"
#include "store/registry.h"

namespace rafter::cli {

// Formats of the checkpoint's matrices by the bytes they take, those under 1 % left out: "q4g64+q8g64",
// "q4_0+q6_k".
std::string quantization_summary(const format::Checkpoint& checkpoint);

// Opens the model, maps it and reads its headers. A model of an unsupported architecture is recorded as such.
// Errors: those of Checkpoint::open.
base::Result<store::ModelRecord> read_model_facts(const store::FoundModel& found);

}  // namespace rafter::cli
