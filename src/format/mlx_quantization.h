// The quantization block of an MLX config.json: a default and per-module entries. A module
// that has no entry is quantised if and only if the file has its scales.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::format {

struct MlxQuantization {
  struct Module {
    bool quantized = true;
    uint64_t bits = 0, group = 0;
    std::string mode;
  };

  bool present = false;
  Module defaults{true, 4, 64, "affine"};
  std::map<std::string, Module, std::less<>> modules;  // by module path, without ".weight"; fields filled in

  // The module's own entry; nullptr if it has none.
  const Module* find(std::string_view module) const;
};

// Where another quantiser's checkpoint can be had in a form that is read.
inline constexpr const char* kConversionHint = "use an MLX, GGUF or unquantised version of the model";

// Reads `quantization`, else `quantization_config`, else the one in `text_config`. What a module's entry
// leaves out comes from the top level if their modes agree, else from its mode's defaults. The widths and
// modes are not judged here but where a module uses them. Errors: invalid_data; unsupported for another
// quantiser's block (quant_method: awq, gptq, …).
base::Result<MlxQuantization> parse_mlx_quantization(std::string_view config_json, const std::string& where);

}  // namespace rafter::format
