#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/ref/bodies.h"

namespace rafter::kernels::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// S of one value head, [DK][DV] in double, as it stands after the pending rows.
std::vector<double> state_at_start(const GatedDeltaArgs& args, const RecurrentRun& run, int32_t m) {
  const RecurrentLayer& layer = args.state;
  const RecurrentShape& shape = layer.shape;
  std::vector<double> state(shape.key_dim * shape.value_dim, 0.0);
  if (layer.base == nullptr || run.position == 0) return state;
  const float* stored = layer.state(run.slot) + m * shape.tiles() * shape.tile_floats();
  for (int32_t d = 0; d < shape.key_dim; ++d) {
    for (int32_t j = 0; j < shape.value_dim; ++j) {
      state[d * shape.value_dim + j] =
          stored[j / kStateTile * shape.tile_floats() + d * kStateTile + j % kStateTile];
    }
  }
  for (int32_t i = 0; i < run.pending; ++i) {
    const float* key = layer.journal_keys(run.slot, run.journal, i) + shape.key_head(m) * shape.key_dim;
    const float* delta = layer.journal_deltas(run.slot, run.journal, i) + m * shape.tiles() * kStateTile;
    const double decay = layer.journal_decays(run.slot, run.journal, i)[m];
    for (int32_t d = 0; d < shape.key_dim; ++d) {
      for (int32_t j = 0; j < shape.value_dim; ++j) {
        double& s = state[d * shape.value_dim + j];
        s = decay * s + double{delta[j]} * key[d];
      }
    }
  }
  return state;
}

void store_state(const GatedDeltaArgs& args, const RecurrentRun& run, int32_t m,
                 const std::vector<double>& state) {
  const RecurrentShape& shape = args.state.shape;
  float* stored = args.state.state(run.slot) + m * shape.tiles() * shape.tile_floats();
  std::memset(stored, 0, shape.tiles() * shape.tile_floats() * sizeof(float));
  for (int32_t d = 0; d < shape.key_dim; ++d) {
    for (int32_t j = 0; j < shape.value_dim; ++j) {
      stored[j / kStateTile * shape.tile_floats() + d * kStateTile + j % kStateTile] =
          static_cast<float>(state[d * shape.value_dim + j]);
    }
  }
}

void run_head(const GatedDeltaArgs& args, const RecurrentRun& run, int32_t m) {
  const RecurrentLayer& layer = args.state;
  const RecurrentShape& shape = layer.shape;
  const int64_t key_at = shape.key_head(m) * shape.key_dim, value_at = m * shape.value_dim;
  std::vector<double> state = state_at_start(args, run, m);
  const int32_t first_pending = run.count > kReplayRows ? run.count - kReplayRows : 0;
  for (int32_t r = 0; r < run.count; ++r) {
    if (r == first_pending && layer.base != nullptr) store_state(args, run, m, state);
    const int64_t b = args.runs->rows[run.first + r];
    const float* q = args.q + b * shape.key_width() + key_at;
    const float* k = args.k + b * shape.key_width() + key_at;
    const double decay = args.gates[b * 2 * shape.value_heads + m];
    const double strength = args.gates[(b * 2 + 1) * shape.value_heads + m];
    const bool journalled = layer.base != nullptr && r >= first_pending;
    const int32_t journal = 1 - run.journal, entry = r - first_pending;
    if (journalled) {
      std::memcpy(layer.journal_keys(run.slot, journal, entry) + key_at, k, shape.key_dim * sizeof(float));
      layer.journal_decays(run.slot, journal, entry)[m] = static_cast<float>(decay);
    }
    for (int32_t j = 0; j < shape.value_dim; ++j) {
      double read = 0, out = 0;
      for (int32_t d = 0; d < shape.key_dim; ++d) {
        double& s = state[d * shape.value_dim + j];
        s *= decay;
        read += s * k[d];
      }
      const double delta = strength * (args.v[b * shape.value_width() + value_at + j] - read);
      for (int32_t d = 0; d < shape.key_dim; ++d) {
        double& s = state[d * shape.value_dim + j];
        s += delta * k[d];
        out += s * q[d];
      }
      args.out[b * shape.value_width() + value_at + j] = static_cast<float>(out);
      if (journalled) {
        layer.journal_deltas(run.slot, journal, entry)[m * shape.tiles() * kStateTile + j] =
            static_cast<float>(delta);
      }
    }
  }
}

}  // namespace

void short_convolution(const ShortConvolutionArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  const RecurrentLayer& layer = args.state;
  const RecurrentShape& shape = layer.shape;
  const int64_t channels = shape.channels(), keys = shape.key_width(), values = shape.value_width();
  for (int32_t i = 0; i < args.runs->run_count; ++i) {
    const RecurrentRun& run = args.runs->runs[i];
    const int32_t* rows = args.runs->rows + run.first;
    for (int32_t r = 0; r < run.count; ++r) {
      const int64_t b = rows[r];
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int32_t j = 0; j < shape.taps; ++j) {
          const int32_t back = shape.taps - 1 - j;
          const int64_t position = int64_t{run.position} + r - back;
          if (position < 0 || (layer.base == nullptr && back > r)) continue;
          const double x =
              back <= r ? args.x[rows[r - back] * channels + c] : layer.ring_row(run.slot, position)[c];
          sum += double{args.weight[j * channels + c]} * x;
        }
        const auto y = static_cast<float>(sum * sigmoid(sum));
        if (c < keys) {
          args.q[b * keys + c] = y;
        } else if (c < 2 * keys) {
          args.k[b * keys + c - keys] = y;
        } else {
          args.v[b * values + c - 2 * keys] = y;
        }
      }
    }
    if (layer.base == nullptr) continue;
    const auto kept = static_cast<int32_t>(shape.convolution_rows());
    for (int32_t r = run.count > kept ? run.count - kept : 0; r < run.count; ++r) {
      std::memcpy(layer.ring_row(run.slot, int64_t{run.position} + r), args.x + rows[r] * channels,
                  channels * sizeof(float));
    }
  }
}

void l2_norm(const L2NormArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t g = 0; g < int64_t{*args.rows} * args.groups; ++g) {
    const float* x = args.x + g * args.width;
    double sum = 0;
    for (int64_t i = 0; i < args.width; ++i) sum += double{x[i]} * x[i];
    const double scale = args.scale / std::sqrt(sum + args.epsilon);
    for (int64_t i = 0; i < args.width; ++i) args.out[g * args.width + i] = static_cast<float>(x[i] * scale);
  }
}

void delta_gates(const DeltaGatesArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t b = 0; b < *args.rows; ++b) {
    for (int32_t m = 0; m < args.heads; ++m) {
      const double x = double{args.alpha[b * args.heads + m]} + args.bias[m];
      const double softplus = x > 30 ? x : std::log1p(std::exp(x));
      args.out[b * 2 * args.heads + m] = static_cast<float>(std::exp(args.rate[m] * softplus));
      args.out[(b * 2 + 1) * args.heads + m] = static_cast<float>(sigmoid(args.beta[b * args.heads + m]));
    }
  }
}

void gated_delta(const GatedDeltaArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int32_t i = 0; i < args.runs->run_count; ++i) {
    for (int32_t m = 0; m < args.state.shape.value_heads; ++m) run_head(args, args.runs->runs[i], m);
  }
}

void gated_rms_norm(const GatedRmsNormArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t g = 0; g < int64_t{*args.rows} * args.groups; ++g) {
    const float* x = args.x + g * args.width;
    const float* gate = args.gate + g * args.width;
    double sum = 0;
    for (int64_t i = 0; i < args.width; ++i) sum += double{x[i]} * x[i];
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(args.width) + args.epsilon);
    for (int64_t i = 0; i < args.width; ++i) {
      args.out[g * args.width + i] =
          static_cast<float>(x[i] * inverse * args.weight[i] * gate[i] * sigmoid(gate[i]));
    }
  }
}

void split_gate(const SplitGateArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t h = 0; h < int64_t{*args.rows} * args.heads; ++h) {
    const float* x = args.x + h * 2 * args.width;
    std::memcpy(args.query + h * args.width, x, args.width * sizeof(float));
    std::memcpy(args.gate + h * args.width, x + args.width, args.width * sizeof(float));
  }
}

void sigmoid_gate(const SigmoidGateArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t i = 0; i < *args.rows * args.width; ++i) {
    const int64_t at = args.one_per_row ? i / args.width : i;
    args.out[i] = static_cast<float>(args.x[i] * sigmoid(args.gate[at]));
  }
}

}  // namespace rafter::kernels::reference
