// A model family, seen from outside: its configuration, its weights as views, and the function that emits its
// ops.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "plan/emitter.h"

namespace rafter::model {

// What every family has; the family's own keys stay in its file.
struct ModelInfo {
  std::string architecture;   // registry name: "llama"
  std::string model_type;     // as the checkpoint says: "mistral", "llama"
  int64_t layers = 0;         // L
  int64_t width = 0;          // D
  int64_t vocabulary = 0;     // V, rows of the head
  int64_t heads = 0;          // H
  int64_t kv_heads = 0;       // KV
  int64_t head_dim = 0;       // HD
  int64_t max_positions = 0;  // 0: the checkpoint does not say
  int64_t parameters = 0;     // logical weight elements, a tied head counted once
  int64_t unused_bytes = 0;   // of tensors that the family knows and leaves alone
  bool tied_head = false;
};

// The shape of each layer's cache.
struct CacheLayer {
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int64_t window = 0;  // positions that a row sees, its own included; 0: all
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  virtual std::vector<CacheLayer> cache_layers() const = 0;
  // The shape of each recurrent layer's state.
  virtual std::vector<kernels::RecurrentShape> state_layers() const { return {}; }
  // Emits the whole step: tokens in, logits of the wanted rows out.
  virtual void emit(plan::Emitter& emitter) const = 0;
  // Emits layer `layer` alone from a value [B, D] to a value [B, D].
  virtual plan::Value emit_layer(plan::Emitter& emitter, int64_t layer, plan::Value x) const = 0;

  // Whether the checkpoint holds a head that guesses the token after the next (multi-token prediction) and
  // that emit_draft() can emit; the error says why not. Its tensors count as unused: no step of emit() reads
  // them.
  virtual base::Status draft_head() const {
    return base::Error{base::ErrorCode::unsupported, "this family has no multi-token-prediction head",
                       info().model_type, ""};
  }
  // The shapes of its caches, which are numbered on from cache_layers().
  virtual std::vector<CacheLayer> draft_cache_layers() const { return {}; }
  // Emits it. A row at position p takes the token of position p + 1 and, from the input "hidden" [B, D], the
  // state that emit() ended at (the tap "final_norm") at position p; the logits guess position p + 2. The tap
  // "draft_hidden", of the wanted rows, is the state to guess on from.
  virtual void emit_draft(plan::Emitter& emitter) const;
};

// Builds the model that the checkpoint's config names.
// Errors: unsupported (names the type and lists what is supported), invalid_data (a key or tensor is missing
// or wrong).
base::Result<std::shared_ptr<const Model>> load_model(const format::Checkpoint& checkpoint);

// Registry names, for messages and help.
std::vector<std::string_view> supported_architectures();

}  // namespace rafter::model
