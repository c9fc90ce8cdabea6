// What Gemma 2, 3 and 4 share: how tensors are named in a folder, in a multimodal model's folder and in GGUF,
// norms that are stored less 1, sizes, and the ends of the model.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"
#include "model/model.h"
#include "model/weights.h"

namespace rafter::model {

struct GemmaSizes {
  int64_t layers = 0, width = 0, heads = 0, max_positions = 0, vocabulary = 0;
  float norm_epsilon = 0;
  float final_softcap = 0;  // of the logits; 0: none
};

// What a family's configs may leave out, because their converters leave out what is the default.
struct GemmaDefaults {
  std::optional<int64_t> heads;
  std::optional<int64_t> max_positions;
  std::optional<double> norm_epsilon;
};

// Everything but the vocabulary, which the embedding tells.
// Errors: unsupported (another activation, attention to both sides), invalid_data.
base::Status read_gemma_sizes(const Config& config, const GemmaDefaults& defaults, GemmaSizes& sizes);

// Errors: unsupported unless it is a multiple of 8 up to 512.
base::Status check_head_dim(const Config& config, int64_t head_dim);
// Errors: invalid_data unless the query heads divide into them.
base::Status check_kv_heads(const Config& config, int64_t heads, int64_t kv_heads);

// The weights of a Gemma checkpoint, by role.
class GemmaWeights {
 public:
  // `norm_offset`: what is added to stored norms (Gemma 2 and 3 store them less 1; GGUF's are whole).
  GemmaWeights(const format::Checkpoint& checkpoint, const Config& config, float norm_offset);

  std::string name(std::string_view role, int64_t layer = 0) const;
  bool has(std::string_view role, int64_t layer = 0) const;
  base::Result<plan::Linear> linear(std::string_view role, int64_t layer, int64_t rows, int64_t columns);
  base::Result<const float*> norm(std::string_view role, int64_t layer, int64_t width);
  // The embedding, which tells the vocabulary's size, and the head: the embedding itself unless there is one.
  base::Status load_ends(GemmaSizes& sizes, ModelInfo& info, plan::Linear& embed_tokens,
                         plan::Linear& lm_head);
  // Leaves the parts that see and hear alone, and what `is_unused` names; everything else must have been
  // used.
  base::Status finish(const std::function<bool(const std::string&)>& is_unused, ModelInfo& info);

  Weights& weights() { return weights_; }
  const std::string& prefix() const { return prefix_; }  // before "layers" in a folder

 private:
  const Config& config_;
  Weights weights_;
  std::string prefix_, head_;
  float norm_offset_ = 0;
};

}  // namespace rafter::model
