// One loader per architecture file, for the registry table in model.cpp.
#pragma once

#include "model/config.h"
#include "model/model.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_llama(const format::Checkpoint& checkpoint,
                                                      const Config& config);
base::Result<std::shared_ptr<const Model>> load_qwen2(const format::Checkpoint& checkpoint,
                                                      const Config& config);
base::Result<std::shared_ptr<const Model>> load_qwen3(const format::Checkpoint& checkpoint,
                                                      const Config& config);

base::Result<std::shared_ptr<const Model>> load_qwen3_moe(const format::Checkpoint& checkpoint,
                                                          const Config& config);
base::Result<std::shared_ptr<const Model>> load_phi3(const format::Checkpoint& checkpoint,
                                                     const Config& config);
base::Result<std::shared_ptr<const Model>> load_smollm3(const format::Checkpoint& checkpoint,
                                                        const Config& config);
base::Result<std::shared_ptr<const Model>> load_qwen3_5(const format::Checkpoint& checkpoint,
                                                        const Config& config);

base::Result<std::shared_ptr<const Model>> load_gemma2(const format::Checkpoint& checkpoint,
                                                       const Config& config);
base::Result<std::shared_ptr<const Model>> load_gemma3(const format::Checkpoint& checkpoint,
                                                       const Config& config);
base::Result<std::shared_ptr<const Model>> load_gemma4(const format::Checkpoint& checkpoint,
                                                       const Config& config);

}  // namespace rafter::model
