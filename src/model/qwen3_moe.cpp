// Qwen3-MoE: qwen3 whose feed-forward is a mixture of experts, in all layers or in those that the config
// names.
#include <algorithm>

#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;
using plan::Emitter;
using plan::Value;

namespace {

struct MixtureConfig {
  int64_t experts = 0, chosen = 0, hidden = 0;
  plan::RouterShape router;
  std::vector<bool> sparse;  // per layer; false: the usual feed-forward
};

class MixtureFeedForward final : public FeedForward {
 public:
  MixtureFeedForward(plan::Linear router, plan::RouterShape shape, ExpertWeights experts)
      : router_(router), shape_(shape), experts_(std::move(experts)) {}

  Value emit(Emitter& e, Value m) const override {
    const Value logits = e.exact_matmul("router_logits", m, router_);
    const Value routes = e.router("router", logits, shape_);
    return e.experts("experts", m, routes, experts_.emitted(kernels::GatedActivation::swiglu));
  }

 private:
  plan::Linear router_;
  plan::RouterShape shape_;
  ExpertWeights experts_;
};

base::Result<MixtureConfig> read_mixture(const Config& config) {
  MixtureConfig mixture;
  RAFTER_ASSIGN(mixture.experts, config.integer("num_experts"));
  RAFTER_ASSIGN(mixture.chosen, config.integer("num_experts_per_tok"));
  RAFTER_ASSIGN(mixture.hidden, config.integer("moe_intermediate_size"));
  if (mixture.experts < 1 || mixture.experts > kernels::RouterArgs::kMostExperts || mixture.chosen < 1 ||
      mixture.chosen > std::min<int64_t>(mixture.experts, kernels::RouterArgs::kMostChosen) ||
      mixture.hidden < 1 || mixture.hidden > 1 << 22) {
    return Error{ErrorCode::unsupported,
                 fmt::format("{} of {} experts of width {}", mixture.chosen, mixture.experts, mixture.hidden),
                 config.where(),
                 fmt::format("supported: up to {} of {} experts", kernels::RouterArgs::kMostChosen,
                             kernels::RouterArgs::kMostExperts)};
  }
  // GGUF does not say: its converters take only files that normalise.
  RAFTER_ASSIGN(const bool normalize, config.boolean("norm_topk_prob", config.from_gguf()));
  mixture.router.chosen = static_cast<int32_t>(mixture.chosen);
  mixture.router.weights =
      normalize ? kernels::RouterWeights::softmax_chosen : kernels::RouterWeights::softmax;

  RAFTER_ASSIGN(const int64_t layers, config.integer("num_hidden_layers"));
  RAFTER_ASSIGN(const int64_t step, config.integer("decoder_sparse_step", 1));
  RAFTER_ASSIGN(const std::vector<double> dense, config.numbers("mlp_only_layers"));
  for (int64_t l = 0; l < layers && l < 4096; ++l) {
    const bool listed = std::find(dense.begin(), dense.end(), static_cast<double>(l)) != dense.end();
    mixture.sparse.push_back(!listed && step > 0 && (l + 1) % step == 0);
  }
  return mixture;
}

ExpertNames names_of(int64_t layer, bool gguf) {
  if (gguf) {
    const std::string at = fmt::format("blk.{}.", layer);
    return {at + "ffn_gate_exps", at + "ffn_up_exps", at + "ffn_down_exps", "", "", ""};
  }
  const std::string at = fmt::format("model.layers.{}.mlp.", layer);
  return {at + "switch_mlp.gate_proj", at + "switch_mlp.up_proj", at + "switch_mlp.down_proj",
          at + "experts.gate_up_proj", at + "experts.down_proj",  at + "experts"};
}

}  // namespace

base::Result<std::shared_ptr<const Model>> load_qwen3_moe(const format::Checkpoint& checkpoint,
                                                          const Config& config) {
  DenseTraits traits;
  traits.architecture = "qwen3_moe";
  traits.default_rope_theta = 1000000.0;
  traits.qk_norm = true;
  RAFTER_ASSIGN(const bool attention_bias, config.boolean("attention_bias", false));
  traits.qkv_bias = traits.o_bias = attention_bias ? Bias::required : Bias::none;
  RAFTER_ASSIGN(traits.windows, qwen_windows(config));
  RAFTER_ASSIGN(const MixtureConfig mixture, read_mixture(config));
  const bool gguf = config.from_gguf();
  traits.feed_forward = [=](Weights& weights, const DenseConfig& c,
                            int64_t l) -> base::Result<std::unique_ptr<FeedForward>> {
    if (!mixture.sparse[static_cast<size_t>(l)]) return std::unique_ptr<FeedForward>();
    const std::string router =
        fmt::format(fmt::runtime(gguf ? "blk.{}.ffn_gate_inp" : "model.layers.{}.mlp.gate"), l);
    RAFTER_ASSIGN(const plan::Linear gate, weights.linear(router, mixture.experts, c.width));
    RAFTER_ASSIGN(ExpertWeights experts,
                  weights.experts(names_of(l, gguf), mixture.experts, mixture.hidden, c.width));
    return std::unique_ptr<FeedForward>(
        std::make_unique<MixtureFeedForward>(gate, mixture.router, std::move(experts)));
  };
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model
