// The registry of model families: a new one is one file, which defines its loader, and its rows here.
#pragma once

#include "model/config.h"
#include "model/model.h"

// row(model type as config.json or general.architecture spells it, loader)
#define RAFTER_MODEL_FAMILIES(row)                                                                    \
  row("llama", load_llama) row("mistral", load_llama) /* MiniCPM5 and SmolLM 1 and 2 say "llama" */   \
      row("qwen2", load_qwen2) row("qwen3", load_qwen3) row("qwen3_moe", load_qwen3_moe)              \
          row("qwen3moe", load_qwen3_moe) /* GGUF's spelling */                                       \
      row("qwen3_5", load_qwen3_5) row("qwen3_5_text", load_qwen3_5) row("qwen3_5_moe", load_qwen3_5) \
          row("qwen3_5_moe_text", load_qwen3_5) row("qwen35", load_qwen3_5)                           \
              row("qwen35moe", load_qwen3_5) /* GGUF's spellings */                                   \
      row("phi3", load_phi3) row("smollm3", load_smollm3) row("gemma2", load_gemma2)                  \
          row("gemma3", load_gemma3) row("gemma3_text", load_gemma3) row("gemma4", load_gemma4)       \
              row("gemma4_text", load_gemma4) row("gemma4_unified", load_gemma4)                      \
                  row("gemma4_unified_text", load_gemma4)

namespace rafter::model {

using Loader = base::Result<std::shared_ptr<const Model>>(const format::Checkpoint& checkpoint,
                                                          const Config& config);

#define RAFTER_DECLARE_LOADER(name, loader) Loader loader;
RAFTER_MODEL_FAMILIES(RAFTER_DECLARE_LOADER)
#undef RAFTER_DECLARE_LOADER

}  // namespace rafter::model
