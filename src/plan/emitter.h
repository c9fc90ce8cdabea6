// The emitter: a model family's layer calls it once per bucket, naming every op in order. Each call appends
// one plain op and returns the value it writes. Fusion is not the caller's business.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace rafter::plan {

struct EmitOptions {
  int64_t capacity = 1;  // rows
  kernels::MatmulPrecision precision = kernels::MatmulPrecision::bf16_inputs;
  int64_t context = 0;    // the most positions that a sequence may have; 0: not known
  bool head = true;       // false: no logits, the model ends at the tap "final_norm"
  bool use_cache = true;  // false: rows attend to the rows of this step only (training, one-shot embedding)
  std::set<std::string, std::less<>> taps;  // names of taps to keep
};

// How a model rotates: see kernels/op/rope.h. `frequencies` [rotated_dims / 2] is owned by the model.
struct Rope {
  int32_t head_dim = 0;
  int32_t rotated_dims = 0;
  kernels::RopeLayout layout = kernels::RopeLayout::half;
  float position_scale = 1.0f;
  float magnitude = 1.0f;
  const float* frequencies = nullptr;
};

// A projection's weights: the stored matrix and, if the family has one, its additive bias [N] in fp32.
struct Linear {
  tensor::MatrixView weight;
  const float* bias = nullptr;
};

// A mixture's experts, one matrix of each role per expert; owned by the model.
struct Experts {
  std::span<const tensor::MatrixView> gate, up;  // [E] of [I, D]
  std::span<const tensor::MatrixView> down;      // [E] of [D, I]
  kernels::GatedActivation activation = kernels::GatedActivation::swiglu;
};

// How a router chooses and weighs: see kernels/op/router.h.
struct RouterShape {
  int32_t chosen = 0;  // K
  kernels::RouterWeights weights = kernels::RouterWeights::softmax;
  bool normalize = false;
  float scale = 1.0f;
  const float* expert_scale = nullptr;  // [E] or null
};

// Shape of one attention.
struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t window = 0;  // 0: none
  float scale = 0;
  float softcap = 0;  // of the scores; 0: none
};

// The values that a delta-net layer's convolution makes of its input.
struct QueriesKeysValues {
  Value q, k, v;
};

// A layer's keys and values after this step's rows were appended.
struct KeysValues {
  Value token;  // with a cache
  Value k, v;   // without
  int32_t cache_layer = -1;
};

class Emitter {
 public:
  explicit Emitter(EmitOptions options);

  int64_t context() const { return options_.context; }
  bool wants_head() const { return options_.head; }

  // Ops emitted from here on belong to layer `layer`; −1: to none.
  void set_layer(int32_t layer) { layer_ = layer; }

  Value embed(std::string_view role, const tensor::MatrixView& table, float scale = 1.0f);
  // A null weight is 1 everywhere.
  Value rms_norm(std::string_view role, Value x, const float* weight, float epsilon);
  // A norm of each of `heads` groups of the row, the weight [width / heads] shared.
  Value rms_norm_per_head(std::string_view role, Value x, int32_t heads, const float* weight, float epsilon);
  Value matmul(std::string_view role, Value x, const Linear& linear);
  // With fp32_inputs in every mode: for a product too small to cost anything whose result decides much.
  Value exact_matmul(std::string_view role, Value x, const Linear& linear);
  Value rope_angles(std::string_view role, const Rope& rope);
  Value rope(std::string_view role, Value x, int32_t heads, const Rope& rope, Value angles);
  KeysValues append_keys_values(std::string_view role, Value k, Value v, const AttentionShape& shape,
                                int32_t cache_layer);
  // Those that a layer outside this plan appended, for a layer emitted alone that shares them.
  KeysValues keys_values_input(std::string_view name, const AttentionShape& shape, int32_t cache_layer);
  Value attention(std::string_view role, Value q, const KeysValues& cache, const AttentionShape& shape);
  // Delta-net layers keep their state in layer `state_layer` of the states. `weight` is [taps, channels].
  QueriesKeysValues short_convolution(std::string_view role, Value x, const float* weight,
                                      const kernels::RecurrentShape& shape, int32_t state_layer);
  Value l2_norm_per_head(std::string_view role, Value x, int32_t heads, float epsilon, float scale);
  Value delta_gates(std::string_view role, Value alpha, Value beta, const float* rate, const float* bias);
  Value gated_delta(std::string_view role, const QueriesKeysValues& qkv, Value gates,
                    const kernels::RecurrentShape& shape, int32_t state_layer);
  Value gated_rms_norm_per_head(std::string_view role, Value x, Value gate, int32_t heads,
                                const float* weight, float epsilon);
  struct QueryGate {
    Value query, gate;
  };
  QueryGate split_gate(std::string_view role, Value x, int32_t heads);
  // `gate` is as wide as x, or one value per row.
  Value sigmoid_gate(std::string_view role, Value x, Value gate);
  Value swiglu(std::string_view role, Value gate, Value up);
  // `up` is as wide as gate, or gate's width is taken of its columns from up_offset on.
  Value geglu(std::string_view role, Value gate, Value up, int64_t up_offset = 0);
  Value scale(std::string_view role, Value x, float factor);
  Value softcap(std::string_view role, Value x, float cap);
  Value add(std::string_view role, Value a, Value b);
  // Routes from the router's logits [B, E]; what `experts` takes with the input that goes through them.
  Value router(std::string_view role, Value logits, const RouterShape& shape);
  Value experts(std::string_view role, Value x, Value routes, const Experts& experts);
  Value select_wanted_rows(std::string_view role, Value x);

  // An input [B, width] that the caller fills before the step (a layer emitted alone).
  Value input(std::string_view name, int64_t width);

  // Keeps `value` readable after the step under `name` if the options ask for that tap; costs nothing
  // otherwise.
  void tap(const std::string& name, Value value);
  void set_logits(Value logits) { plan_.logits = logits; }

  Plan take() && { return std::move(plan_); }

 private:
  Value new_value(std::string_view name, RowSpace rows, int64_t width);
  // An op whose outputs the caller fills in.
  Op& append_op(std::string_view role, OpArgs args, std::vector<Value> inputs, int32_t cache_layer);
  Value append(std::string_view role, OpArgs args, std::vector<Value> inputs, RowSpace rows, int64_t width,
               int32_t cache_layer = -1);

  EmitOptions options_;
  Plan plan_;
  int32_t layer_ = -1;
};

}  // namespace rafter::plan
