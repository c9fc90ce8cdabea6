#include "plan/emitter.h"

#include "base/check.h"

namespace rafter::plan {

using namespace kernels;

Emitter::Emitter(EmitOptions options) : options_(std::move(options)) { plan_.capacity = options_.capacity; }

Value Emitter::new_value(std::string_view name, RowSpace rows, int64_t width) {
  std::string full = layer_ >= 0 ? fmt::format("layer.{}.{}", layer_, name) : std::string(name);
  plan_.values.push_back({std::move(full), rows, width});
  return {static_cast<int32_t>(plan_.values.size()) - 1};
}

Op& Emitter::append_op(std::string_view role, OpArgs args, std::vector<Value> inputs, int32_t cache_layer) {
  for (Value input : inputs) RAFTER_CHECK(input.valid(), "{}: an input was never written", role);
  plan_.ops.push_back({std::string(role), layer_, std::move(args), std::move(inputs), {}, cache_layer, {}});
  return plan_.ops.back();
}

Value Emitter::append(std::string_view role, OpArgs args, std::vector<Value> inputs, RowSpace rows,
                      int64_t width, int32_t cache_layer) {
  const Value out = new_value(role, rows, width);
  append_op(role, std::move(args), std::move(inputs), cache_layer).outputs = {out};
  return out;
}

Value Emitter::input(std::string_view name, int64_t width) {
  Value value = new_value(name, RowSpace::step, width);
  plan_.taps[std::string(name)] = value;  // its buffer is never reused
  return value;
}

Value Emitter::embed(std::string_view role, const tensor::MatrixView& table, float scale) {
  EmbedArgs args;
  args.table = table;
  args.scale = scale;
  return append(role, args, {}, RowSpace::step, table.columns);
}

Value Emitter::rms_norm(std::string_view role, Value x, const float* weight, float epsilon) {
  return rms_norm_per_head(role, x, 1, weight, epsilon);
}

Value Emitter::rms_norm_per_head(std::string_view role, Value x, int32_t heads, const float* weight,
                                 float epsilon) {
  const ValueInfo info = plan_.info(x);
  RAFTER_CHECK(info.width % heads == 0, "{}: width {} does not divide into {} heads", role, info.width,
               heads);
  RmsNormArgs args;
  args.groups = heads;
  args.width = info.width / heads;
  args.epsilon = epsilon;
  args.weight = weight;
  return append(role, args, {x}, info.rows, info.width);
}

Value Emitter::matmul(std::string_view role, Value x, const Linear& linear) {
  const ValueInfo info = plan_.info(x);
  RAFTER_CHECK(info.width == linear.weight.columns, "{}: the input has width {}, the weight {} columns", role,
               info.width, linear.weight.columns);
  MatmulArgs args;
  args.columns = linear.weight.columns;
  args.precision = options_.precision;
  args.segment_count = 1;
  args.segments[0].weight = linear.weight;
  args.segments[0].bias = linear.bias;
  return append(role, args, {x}, info.rows, linear.weight.rows);
}

Value Emitter::exact_matmul(std::string_view role, Value x, const Linear& linear) {
  const Value out = matmul(role, x, linear);
  std::get<MatmulArgs>(plan_.ops.back().args).precision = MatmulPrecision::fp32_inputs;
  return out;
}

Value Emitter::rope_angles(std::string_view role, const Rope& rope) {
  RopeAnglesArgs args;
  args.rotated_dims = rope.rotated_dims;
  args.position_scale = rope.position_scale;
  args.frequencies = rope.frequencies;
  return append(role, args, {}, RowSpace::step, rope.rotated_dims);
}

Value Emitter::rope(std::string_view role, Value x, int32_t heads, const Rope& rope, Value angles) {
  const ValueInfo info = plan_.info(x);
  RAFTER_CHECK(info.width == int64_t{heads} * rope.head_dim, "{}: width {} is not {} heads of {}", role,
               info.width, heads, rope.head_dim);
  RopeArgs args;
  args.heads = heads;
  args.head_dim = rope.head_dim;
  args.rotated_dims = rope.rotated_dims;
  args.layout = rope.layout;
  args.magnitude = rope.magnitude;
  return append(role, args, {x, angles}, info.rows, info.width);
}

KeysValues Emitter::append_keys_values(std::string_view role, Value k, Value v, const AttentionShape& shape,
                                       int32_t cache_layer) {
  if (!options_.use_cache) return {{}, k, v, -1};
  KvAppendArgs args;
  args.cache.kv_heads = shape.kv_heads;
  args.cache.head_dim = shape.head_dim;
  return {append(role, args, {k, v}, RowSpace::step, 0, cache_layer), {}, {}, cache_layer};
}

KeysValues Emitter::keys_values_input(std::string_view name, const AttentionShape& shape,
                                      int32_t cache_layer) {
  if (options_.use_cache) return {input(name, 0), {}, {}, cache_layer};
  const int64_t width = int64_t{shape.kv_heads} * shape.head_dim;
  return {{}, input(fmt::format("{}.k", name), width), input(fmt::format("{}.v", name), width), -1};
}

Value Emitter::attention(std::string_view role, Value q, const KeysValues& cache,
                         const AttentionShape& shape) {
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  if (!cache.token.valid()) {
    RowAttentionArgs args;
    args.heads = shape.heads;
    args.kv_heads = shape.kv_heads;
    args.head_dim = shape.head_dim;
    args.window = shape.window;
    args.scale = shape.scale;
    args.softcap = shape.softcap;
    return append(role, args, {q, cache.k, cache.v}, RowSpace::step, width);
  }
  AttentionArgs args;
  args.heads = shape.heads;
  args.window = shape.window;
  args.scale = shape.scale;
  args.softcap = shape.softcap;
  args.cache.kv_heads = shape.kv_heads;
  args.cache.head_dim = shape.head_dim;
  return append(role, args, {q, cache.token}, RowSpace::step, width, cache.cache_layer);
}

QueriesKeysValues Emitter::short_convolution(std::string_view role, Value x, const float* weight,
                                             const RecurrentShape& shape, int32_t state_layer) {
  RAFTER_CHECK(plan_.info(x).width == shape.channels(), "{}: the input has width {}, the convolution {}",
               role, plan_.info(x).width, shape.channels());
  ShortConvolutionArgs args;
  args.state.shape = shape;
  args.weight = weight;
  const QueriesKeysValues out = {new_value("conv_q", RowSpace::step, shape.key_width()),
                                 new_value("conv_k", RowSpace::step, shape.key_width()),
                                 new_value("conv_v", RowSpace::step, shape.value_width())};
  append_op(role, args, {x}, options_.use_cache ? state_layer : -1).outputs = {out.q, out.k, out.v};
  return out;
}

Value Emitter::l2_norm_per_head(std::string_view role, Value x, int32_t heads, float epsilon, float scale) {
  const ValueInfo info = plan_.info(x);
  L2NormArgs args;
  args.groups = heads;
  args.width = info.width / heads;
  args.epsilon = epsilon;
  args.scale = scale;
  return append(role, args, {x}, info.rows, info.width);
}

Value Emitter::delta_gates(std::string_view role, Value alpha, Value beta, const float* rate,
                           const float* bias) {
  const ValueInfo info = plan_.info(alpha);
  DeltaGatesArgs args;
  args.heads = static_cast<int32_t>(info.width);
  args.rate = rate;
  args.bias = bias;
  return append(role, args, {alpha, beta}, info.rows, 2 * info.width);
}

Value Emitter::gated_delta(std::string_view role, const QueriesKeysValues& qkv, Value gates,
                           const RecurrentShape& shape, int32_t state_layer) {
  GatedDeltaArgs args;
  args.state.shape = shape;
  return append(role, args, {qkv.q, qkv.k, qkv.v, gates}, RowSpace::step, shape.value_width(),
                options_.use_cache ? state_layer : -1);
}

Value Emitter::gated_rms_norm_per_head(std::string_view role, Value x, Value gate, int32_t heads,
                                       const float* weight, float epsilon) {
  const ValueInfo info = plan_.info(x);
  GatedRmsNormArgs args;
  args.groups = heads;
  args.width = info.width / heads;
  args.epsilon = epsilon;
  args.weight = weight;
  return append(role, args, {x, gate}, info.rows, info.width);
}

Emitter::QueryGate Emitter::split_gate(std::string_view role, Value x, int32_t heads) {
  const ValueInfo info = plan_.info(x);
  SplitGateArgs args;
  args.heads = heads;
  args.width = info.width / heads / 2;
  const QueryGate out = {new_value("attn_query", info.rows, info.width / 2),
                         new_value("attn_gate", info.rows, info.width / 2)};
  append_op(role, args, {x}, -1).outputs = {out.query, out.gate};
  return out;
}

Value Emitter::sigmoid_gate(std::string_view role, Value x, Value gate) {
  const ValueInfo info = plan_.info(x);
  const int64_t gate_width = plan_.info(gate).width;
  RAFTER_CHECK(gate_width == info.width || gate_width == 1, "{}: a gate of width {} for {}", role, gate_width,
               info.width);
  SigmoidGateArgs args;
  args.width = info.width;
  args.one_per_row = gate_width != info.width;
  return append(role, args, {x, gate}, info.rows, info.width);
}

Value Emitter::swiglu(std::string_view role, Value gate, Value up) {
  const ValueInfo info = plan_.info(gate);
  SwigluArgs args;
  args.width = info.width;
  return append(role, args, {gate, up}, info.rows, info.width);
}

Value Emitter::geglu(std::string_view role, Value gate, Value up, int64_t up_offset) {
  const ValueInfo info = plan_.info(gate);
  GegluArgs args;
  args.width = info.width;
  args.up_stride = plan_.info(up).width;
  args.up_offset = up_offset;
  RAFTER_CHECK(up_offset >= 0 && up_offset + args.width <= args.up_stride, "{}: {} columns from {} of {}",
               role, args.width, up_offset, args.up_stride);
  return append(role, args, {gate, up}, info.rows, info.width);
}

Value Emitter::scale(std::string_view role, Value x, float factor) {
  const ValueInfo info = plan_.info(x);
  ScaleArgs args;
  args.width = info.width;
  args.factor = factor;
  return append(role, args, {x}, info.rows, info.width);
}

Value Emitter::softcap(std::string_view role, Value x, float cap) {
  const ValueInfo info = plan_.info(x);
  SoftcapArgs args;
  args.width = info.width;
  args.cap = cap;
  return append(role, args, {x}, info.rows, info.width);
}

Value Emitter::add(std::string_view role, Value a, Value b) {
  const ValueInfo info = plan_.info(a);
  AddArgs args;
  args.width = info.width;
  return append(role, args, {a, b}, info.rows, info.width);
}

Value Emitter::router(std::string_view role, Value logits, const RouterShape& shape) {
  const ValueInfo info = plan_.info(logits);
  RAFTER_CHECK(shape.chosen >= 1 && shape.chosen <= info.width && shape.chosen <= RouterArgs::kMostChosen,
               "{}: {} of {} experts", role, shape.chosen, info.width);
  RouterArgs args;
  args.experts = static_cast<int32_t>(info.width);
  args.chosen = shape.chosen;
  args.weights = shape.weights;
  args.normalize = shape.normalize;
  args.scale = shape.scale;
  args.expert_scale = shape.expert_scale;
  return append(role, args, {logits}, info.rows, 2 * int64_t{shape.chosen});
}

Value Emitter::experts(std::string_view role, Value x, Value routes, const Experts& experts) {
  const ValueInfo info = plan_.info(x);
  const size_t count = experts.gate.size();
  RAFTER_CHECK(count > 0 && experts.up.size() == count && experts.down.size() == count,
               "{}: {} gate, {} up and {} down matrices", role, count, experts.up.size(),
               experts.down.size());
  RAFTER_CHECK(info.width == experts.gate[0].columns, "{}: the input has width {}, the experts {}", role,
               info.width, experts.gate[0].columns);
  ExpertsArgs args;
  args.experts = static_cast<int32_t>(count);
  args.chosen = static_cast<int32_t>(plan_.info(routes).width / 2);
  args.width = info.width;
  args.hidden = experts.gate[0].rows;
  args.precision = options_.precision;
  args.activation = experts.activation;
  args.gate = experts.gate.data();
  args.up = experts.up.data();
  args.down = experts.down.data();
  return append(role, args, {x, routes}, info.rows, info.width);
}

Value Emitter::select_wanted_rows(std::string_view role, Value x) {
  SelectRowsArgs args;
  args.width = plan_.info(x).width;
  return append(role, args, {x}, RowSpace::wanted, args.width);
}

void Emitter::tap(const std::string& name, Value value) {
  if (options_.taps.contains(name)) plan_.taps[name] = value;
}

}  // namespace rafter::plan
