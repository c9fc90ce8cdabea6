// Which layers keep their keys and values as codes, and how wide: --kv-quant, or the checkpoint's
// kv_config.json,
//   [{"layer_idx": 0, "bits": 8, "group_size": 64}, …]
// by layer of the model; layers that are not listed keep 16 bits. Entries of layers without keys and values
// of their own (recurrent ones, those that share another's) mean nothing: profilers list them too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "kernels/op/kv_cache.h"
#include "model/model.h"

namespace rafter::engine {

enum class KvQuantization : uint8_t {
  automatic,   // kv_config.json if the checkpoint has one, else off; off with an fp32 cache
  off,         // bf16, or fp32 where that was asked for
  config,      // kv_config.json, which must be there
  four_bits,   // every layer, in groups of 64 (of 32 or of a head where 64 does not divide it)
  eight_bits,  // the same
};

// From the values of --kv-quant, "config", "off", "4" and "8"; none for anything else.
std::optional<KvQuantization> parse_kv_quantization(std::string_view text);

// The codes of each of the model's cache layers. `precise`: an fp32 cache was asked for.
// Errors: not_found (config, and there is no kv_config.json), invalid_data (the file's, named), unsupported
// (bits other than 4 and 8, groups that do not divide a head).
base::Result<std::vector<kernels::KvCodes>> kv_codes(const format::Checkpoint& checkpoint,
                                                     const model::Model& model, KvQuantization quantization,
                                                     bool precise);

// "bf16", "8 bit", "4 and 8 bit, bf16": for printing.
std::string describe_kv_codes(const std::vector<kernels::KvCodes>& codes, bool precise);

}  // namespace rafter::engine
