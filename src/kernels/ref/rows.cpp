#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/ref/bodies.h"
#include "kernels/ref/kv_codes.h"
#include "tensor/codec.h"

namespace rafter::kernels::reference {

void embed(const EmbedArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const int64_t width = args.table.columns;
  for (int64_t b = 0; b < args.input->rows; ++b) {
    const std::span<float> out(args.out + b * width, width);
    tensor::decode_row(args.table, args.input->tokens[b], out);
    for (float& value : out) value *= args.scale;
  }
}

void rms_norm(const RmsNormArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  RAFTER_CHECK(!args.adds_residual, "the reference has no fused norm");
  for (int64_t g = 0; g < int64_t{*args.rows} * args.groups; ++g) {
    const float* x = args.x + g * args.width;
    double sum = 0;
    for (int64_t i = 0; i < args.width; ++i) sum += double{x[i]} * x[i];
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(args.width) + args.epsilon);
    for (int64_t i = 0; i < args.width; ++i) {
      const double weight = args.weight == nullptr ? 1 : args.weight[i];
      args.out[g * args.width + i] = static_cast<float>(x[i] * inverse * weight);
    }
  }
}

void rope_angles(const RopeAnglesArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const int64_t pairs = args.rotated_dims / 2;
  for (int64_t b = 0; b < args.input->rows; ++b) {
    const float scaled = args.position_scale * static_cast<float>(args.input->positions[b]);
    float* out = args.out + b * args.rotated_dims;
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = scaled * args.frequencies[i];
      out[i] = static_cast<float>(std::cos(double{angle}));
      out[pairs + i] = static_cast<float>(std::sin(double{angle}));
    }
  }
}

void rope(const RopeArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const int64_t pairs = args.rotated_dims / 2;
  const bool half = args.layout == RopeLayout::half;
  for (int64_t b = 0; b < *args.rows; ++b) {
    const float* cosines = args.angles + b * args.rotated_dims;
    const float* sines = cosines + pairs;
    for (int64_t h = 0; h < args.heads; ++h) {
      const float* x = args.x + (b * args.heads + h) * args.head_dim;
      float* out = args.out + (b * args.heads + h) * args.head_dim;
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t ia = half ? i : 2 * i, ib = half ? i + pairs : 2 * i + 1;
        const double a = double{args.magnitude} * x[ia], b_value = double{args.magnitude} * x[ib];
        out[ia] = static_cast<float>(a * cosines[i] - b_value * sines[i]);
        out[ib] = static_cast<float>(a * sines[i] + b_value * cosines[i]);
      }
      std::copy(x + args.rotated_dims, x + args.head_dim, out + args.rotated_dims);
    }
  }
}

void kv_append(const KvAppendArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const StepInput& input = *args.input;
  const KvLayer& cache = args.cache;
  const int64_t width = int64_t{cache.kv_heads} * cache.head_dim;
  const auto store = [&](std::byte* side, int64_t h, int64_t slot, const float* from) {
    std::byte* to = side + cache.offset(h, slot);
    for (int64_t i = 0; i < cache.head_dim; ++i) {
      if (cache.type == tensor::DType::f32) {
        std::memcpy(to + 4 * i, from + i, 4);
      } else {
        const uint16_t bits = tensor::f32_to_bf16(from[i]);
        std::memcpy(to + 2 * i, &bits, 2);
      }
    }
  };
  for (int64_t b = 0; b < input.rows; ++b) {
    const int64_t position = input.positions[b];
    const int32_t* table = block_table(input, cache, b);
    const int64_t block = table[position / kBlockPositions] * cache.block_stride;
    for (int64_t h = 0; h < cache.kv_heads; ++h) {
      const int64_t slot = position % kBlockPositions, offset = b * width + h * cache.head_dim;
      if (cache.has_codes()) {
        quantize_key(cache, cache.keys + block, h, slot, args.k + offset);
        quantize_value(cache, cache.values + block, h, slot, args.v + offset);
        continue;
      }
      store(cache.keys + block, h, slot, args.k + offset);
      store(cache.values + block, h, slot, args.v + offset);
    }
  }
}

void swiglu(const SwigluArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t i = 0; i < *args.rows * args.width; ++i) {
    const double gate = args.gate[i];
    args.out[i] = static_cast<float>(gate / (1.0 + std::exp(-gate)) * args.up[i]);
  }
}

void geglu(const GegluArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  constexpr double kRootTwoOverPi = 0.79788456080286535588;
  for (int64_t b = 0; b < *args.rows; ++b) {
    for (int64_t i = 0; i < args.width; ++i) {
      const double gate = args.gate[b * args.width + i];
      const double up = args.up[b * args.up_stride + args.up_offset + i];
      // (1 + tanh(u)) / 2 = σ(2u), which does not cancel where it is small.
      const double u = kRootTwoOverPi * (gate + 0.044715 * gate * gate * gate);
      args.out[b * args.width + i] = static_cast<float>(gate / (1 + std::exp(-2 * u)) * up);
    }
  }
}

void scale(const ScaleArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t i = 0; i < *args.rows * args.width; ++i) args.out[i] = args.factor * args.x[i];
}

void softcap(const SoftcapArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const double cap = args.cap;
  for (int64_t i = 0; i < *args.rows * args.width; ++i)
    args.out[i] = static_cast<float>(cap * std::tanh(args.x[i] / cap));
}

void add(const AddArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t i = 0; i < *args.rows * args.width; ++i) args.out[i] = args.a[i] + args.b[i];
}

void select_rows(const SelectRowsArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t i = 0; i < args.input->wanted_rows; ++i) {
    std::copy_n(args.x + args.input->wanted[i] * args.width, args.width, args.out + i * args.width);
  }
}

}  // namespace rafter::kernels::reference
