#include "model/model.h"

#include "model/config.h"
#include "model/families.h"

namespace rafter::model {
namespace {

struct Architecture {
  std::string_view model_type;  // as config.json or general.architecture spell it
  base::Result<std::shared_ptr<const Model>> (*load)(const format::Checkpoint&, const Config&);
};

// The registry: a family is one file and its rows here.
constexpr Architecture kArchitectures[] = {
    {"llama", load_llama},
    {"mistral", load_llama},  // MiniCPM5 and SmolLM 1 and 2 say "llama"
    {"qwen2", load_qwen2},
    {"qwen3", load_qwen3},
    {"qwen3_moe", load_qwen3_moe},
    {"qwen3moe", load_qwen3_moe},  // GGUF's spelling
    {"qwen3_5", load_qwen3_5},
    {"qwen3_5_text", load_qwen3_5},
    {"qwen3_5_moe", load_qwen3_5},
    {"qwen3_5_moe_text", load_qwen3_5},
    {"qwen35", load_qwen3_5},
    {"qwen35moe", load_qwen3_5},  // GGUF's spellings
    {"phi3", load_phi3},
    {"smollm3", load_smollm3},
    {"gemma2", load_gemma2},
    {"gemma3", load_gemma3},
    {"gemma3_text", load_gemma3},
    {"gemma4", load_gemma4},
    {"gemma4_text", load_gemma4},
    {"gemma4_unified", load_gemma4},
    {"gemma4_unified_text", load_gemma4},
};

}  // namespace

std::vector<std::string_view> supported_architectures() {
  std::vector<std::string_view> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.model_type);
  return names;
}

base::Result<std::shared_ptr<const Model>> load_model(const format::Checkpoint& checkpoint) {
  RAFTER_ASSIGN(const Config config, Config::from_checkpoint(checkpoint));
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type != config.model_type()) continue;
    auto model = architecture.load(checkpoint, config);
    RAFTER_TRY(checkpoint.check_not_cut());  // else what could not be read counts as zeros, or as damage
    return model;
  }
  std::string supported;
  for (std::string_view name : supported_architectures())
    supported += (supported.empty() ? "" : ", ") + std::string(name);
  return base::Error{base::ErrorCode::unsupported,
                     fmt::format("model type \"{}\" is not supported", config.model_type()), config.where(),
                     "supported: " + supported};
}

}  // namespace rafter::model
