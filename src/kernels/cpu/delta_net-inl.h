// The delta-net kernels of one tier.
//
// One order for prompt rows and generated rows: the state advances row by row, in fp32, out of the
// first-level cache. A chunked form would give other bits. One core takes 68 (AVX2) to 130 µs (AVX-512) for a
// prompt row of one layer of a 4B model, on a machine busy with other work (bench/delta_net_bench.cpp).
// Generated rows are bound by memory: 33 (AVX2) and 50 GB/s (AVX-512) on one core, since the state is read
// and written once: a row is applied to it while the next one reads it.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/delta_gates.h"
#include "kernels/cpu/exp_clamped-inl.h"
#include "kernels/cpu/row_functions.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/op/kernel_table.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kDeltaChunkElements = 4096;  // per claim of the element-wise ops
constexpr int64_t kConvolutionChannels = 256;  // per claim
constexpr int64_t kTilesPerClaim = 2;          // 16 KiB of state where DK is 128

int64_t delta_chunk(int64_t width) { return width < kDeltaChunkElements ? kDeltaChunkElements / width : 1; }

float silu(float x) {
  const float clamped = x < -88.0f ? -88.0f : x;  // as swiglu_row: silu(−88) is −5e-37
  return clamped / (1.0f + exp_clamped(-clamped));
}

// --- convolution

// Where channels from `begin` on go: the q, k or v part that holds them, and how many it still holds.
struct ConvolutionPart {
  float* out;
  int64_t width, offset, left;
};

ConvolutionPart part_of(const ShortConvolutionArgs& args, int64_t begin) {
  const int64_t keys = args.state.shape.key_width();
  if (begin < keys) return {args.q, keys, begin, keys - begin};
  if (begin < 2 * keys) return {args.k, keys, begin - keys, 2 * keys - begin};
  return {args.v, args.state.shape.value_width(), begin - 2 * keys, args.state.shape.channels() - begin};
}

// Channels [begin, begin + count) of every row of a run.
void convolve_channels(const ShortConvolutionArgs& args, const RecurrentRun& run, int64_t begin,
                       int64_t count) {
  const RecurrentLayer& layer = args.state;
  const int64_t channels = layer.shape.channels();
  const int32_t* rows = args.runs->rows + run.first;
  const ConvolutionPart part = part_of(args, begin);
  float sums[kConvolutionChannels];
  for (int32_t r = 0; r < run.count; ++r) {
    for (int64_t c = 0; c < count; ++c) sums[c] = 0;
    for (int32_t back = layer.shape.taps - 1; back >= 0; --back) {
      const int64_t position = int64_t{run.position} + r - back;
      const bool before_this_step = back > r;
      if (position < 0 || (before_this_step && layer.base == nullptr)) continue;
      const float* x =
          before_this_step ? layer.ring_row(run.slot, position) : args.x + rows[r - back] * channels;
      const float* weight = args.weight + (layer.shape.taps - 1 - back) * channels + begin;
      for (int64_t c = 0; c < count; ++c) sums[c] += weight[c] * x[begin + c];
    }
    float* out = part.out + rows[r] * part.width + part.offset;
    for (int64_t c = 0; c < count; ++c) out[c] = silu(sums[c]);
  }
  if (layer.base == nullptr) return;
  const int64_t kept = layer.shape.convolution_rows();
  for (int64_t r = run.count > kept ? run.count - kept : 0; r < run.count; ++r) {
    std::memcpy(layer.ring_row(run.slot, run.position + r) + begin, args.x + rows[r] * channels + begin,
                static_cast<size_t>(count) * 4);
  }
}

void short_convolution(const ShortConvolutionArgs& args, Worker& worker) {
  const int64_t channels = args.state.shape.channels();
  const int64_t blocks = (channels + kConvolutionChannels - 1) / kConvolutionChannels;
  const int64_t total = args.runs->run_count * blocks;
  for (int64_t begin, end; worker.claim(0, total, 1, &begin, &end);) {
    const RecurrentRun& run = args.runs->runs[begin / blocks];
    int64_t c = begin % blocks * kConvolutionChannels;
    const int64_t last = c + kConvolutionChannels < channels ? c + kConvolutionChannels : channels;
    while (c < last) {
      const int64_t left = part_of(args, c).left;
      const int64_t count = left < last - c ? left : last - c;
      convolve_channels(args, run, c, count);
      c += count;
    }
  }
}

// --- the delta rule

// One vector of lanes of a tile, through time: kLanes value dims of one value head.
struct DeltaLanes {
  Floats delta = {};           // of the last row seen, not yet applied
  float decay = 0;             // its decay
  const float* key = nullptr;  // its key [DK]; null: no row yet
};

// State as the row before left it → u = S k, w = S q (before this row). Where a row is waiting it is applied
// first and the state stored at `to`. Tiles are [DK][16]: `from` and `to` point at their lanes' first row.
template <bool kApply, bool kRead>
[[gnu::always_inline]] inline void pass(const DeltaLanes& lanes, const float* from, float* to,
                                        int32_t key_dim, const float* k, const float* q, Floats* u,
                                        Floats* w) {
  Floats us[4] = {}, ws[4] = {};
  const Floats decay = broadcast(lanes.decay);
  int32_t d = 0;
  const auto one = [&](int32_t at, int part) __attribute__((always_inline)) {
    Floats s = load(from + int64_t{at} * kStateTile);
    if (kApply) {
      s = multiply_add(lanes.delta, broadcast(lanes.key[at]), decay * s);
      store(to + int64_t{at} * kStateTile, s);
    }
    if (kRead) {
      us[part] = multiply_add(s, broadcast(k[at]), us[part]);
      ws[part] = multiply_add(s, broadcast(q[at]), ws[part]);
    }
  };
  for (; d + 4 <= key_dim; d += 4) one(d, 0), one(d + 1, 1), one(d + 2, 2), one(d + 3, 3);
  for (; d < key_dim; ++d) one(d, d % 4);
  if (kRead) {
    *u = (us[0] + us[1]) + (us[2] + us[3]);
    *w = (ws[0] + ws[1]) + (ws[2] + ws[3]);
  }
}

// k · q in the same order whatever the tile.
float key_dot_query(const float* k, const float* q, int32_t key_dim) {
  Floats sums = {};
  int32_t d = 0;
  for (; d + kLanes <= key_dim; d += kLanes) sums = multiply_add(load(k + d), load(q + d), sums);
  float sum = sum_of_lanes(sums);
  for (; d < key_dim; ++d) sum += k[d] * q[d];
  return sum;
}

Floats load_lanes(const float* from, int64_t count) {
  if (count >= kLanes) return load(from);
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}
void store_lanes(float* to, int64_t count, Floats v) {
  if (count >= kLanes) return store(to, v);
  float lanes[kLanes];
  store(lanes, v);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Lanes [lane, lane + kLanes) of one tile of one run, from the pending rows to the last. `scratch` [DK][16]
// takes the states that must not be stored.
void run_lanes(const GatedDeltaArgs& args, const RecurrentRun& run, int32_t m, int64_t tile, int64_t lane,
               float* scratch) {
  const RecurrentLayer& layer = args.state;
  const RecurrentShape& shape = layer.shape;
  const bool keeps = layer.base != nullptr;
  const int64_t key_at = int64_t{shape.key_head(m)} * shape.key_dim;
  const int64_t value_at = int64_t{m} * shape.value_dim + tile * kStateTile + lane;
  const int64_t lanes_left = shape.value_dim - tile * kStateTile - lane;
  const int64_t delta_at = (m * shape.tiles() + tile) * kStateTile + lane;

  float* here =
      (keeps ? layer.state(run.slot) + (m * shape.tiles() + tile) * shape.tile_floats() : scratch) + lane;
  if (!keeps || run.position == 0) {
    for (int32_t d = 0; d < shape.key_dim; ++d) store(here + int64_t{d} * kStateTile, Floats{});
  }
  DeltaLanes lanes;
  for (int32_t i = 0; i < run.pending; ++i) {
    if (i > 0) pass<true, false>(lanes, here, here, shape.key_dim, nullptr, nullptr, nullptr, nullptr);
    lanes.delta = load(layer.journal_deltas(run.slot, run.journal, i) + delta_at);
    lanes.decay = layer.journal_decays(run.slot, run.journal, i)[m];
    lanes.key = layer.journal_keys(run.slot, run.journal, i) + key_at;
  }
  const int32_t first_pending = run.count > kReplayRows ? run.count - kReplayRows : 0;
  const int32_t journal = 1 - run.journal;
  for (int32_t r = 0; r < run.count; ++r) {
    const int64_t b = args.runs->rows[run.first + r];
    const float* q = args.q + b * shape.key_width() + key_at;
    const float* k = args.k + b * shape.key_width() + key_at;
    Floats u, w;
    if (lanes.key != nullptr) {  // stored as it stands before the first row that stays pending, no later
      float* to = keeps && r > first_pending ? scratch + lane : here;
      pass<true, true>(lanes, here, to, shape.key_dim, k, q, &u, &w);
      here = to;
    } else {
      pass<false, true>(lanes, here, here, shape.key_dim, k, q, &u, &w);
    }
    const float decay = args.gates[b * 2 * shape.value_heads + m];
    const float strength = args.gates[(b * 2 + 1) * shape.value_heads + m];
    const Floats v = load_lanes(args.v + b * shape.value_width() + value_at, lanes_left);
    lanes.delta = strength * (v - decay * u);
    lanes.decay = decay;
    lanes.key = k;
    const Floats out = multiply_add(lanes.delta, broadcast(key_dot_query(k, q, shape.key_dim)), decay * w);
    store_lanes(args.out + b * shape.value_width() + value_at, lanes_left, out);
    if (!keeps || r < first_pending) continue;
    const int32_t entry = r - first_pending;
    store(layer.journal_deltas(run.slot, journal, entry) + delta_at, lanes.delta);
    if (tile > 0 || lane > 0) continue;
    layer.journal_decays(run.slot, journal, entry)[m] = decay;
    if (shape.is_first_reader(m)) {
      std::memcpy(layer.journal_keys(run.slot, journal, entry) + key_at, k,
                  static_cast<size_t>(shape.key_dim) * 4);
    }
  }
}

void gated_delta(const GatedDeltaArgs& args, Worker& worker) {
  const RecurrentShape& shape = args.state.shape;
  const int64_t tiles = shape.tiles(), per_run = shape.value_heads * tiles;
  float* scratch = reinterpret_cast<float*>(worker.scratch().data());
  for (int64_t begin, end; worker.claim(0, args.runs->run_count * per_run, kTilesPerClaim, &begin, &end);) {
    for (int64_t item = begin; item < end; ++item) {
      const RecurrentRun& run = args.runs->runs[item / per_run];
      const int64_t tile = item % per_run;
      for (int64_t lane = 0; lane < kStateTile; lane += kLanes) {
        run_lanes(args, run, static_cast<int32_t>(tile / tiles), tile % tiles, lane, scratch);
      }
    }
  }
}

// --- glue

void l2_norm(const L2NormArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.groups;
  const auto width = static_cast<float>(args.width);
  const float scale = args.scale / std::sqrt(width);  // of the root mean square, which inverse_rms() gives
  for (int64_t begin, end; worker.claim(0, total, delta_chunk(args.width), &begin, &end);) {
    for (int64_t g = begin; g < end; ++g) {
      const float* x = args.x + g * args.width;
      float* out = args.out + g * args.width;
      const float factor = inverse_rms(x, args.width, args.epsilon / width) * scale;
      for (int64_t i = 0; i < args.width; ++i) out[i] = x[i] * factor;
    }
  }
}

void gated_rms_norm(const GatedRmsNormArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.groups;
  for (int64_t begin, end; worker.claim(0, total, delta_chunk(args.width), &begin, &end);) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t offset = g * args.width;
      norm_row(args.x + offset, args.weight, args.width, args.epsilon, args.out + offset);
      swiglu_row(args.gate + offset, args.out + offset, args.width, args.out + offset);
    }
  }
}

void split_gate(const SplitGateArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.heads;
  const auto bytes = static_cast<size_t>(args.width) * 4;
  for (int64_t begin, end; worker.claim(0, total, delta_chunk(2 * args.width), &begin, &end);) {
    for (int64_t h = begin; h < end; ++h) {
      const float* x = args.x + h * 2 * args.width;
      std::memcpy(args.query + h * args.width, x, bytes);
      std::memcpy(args.gate + h * args.width, x + args.width, bytes);
    }
  }
}

// x · σ(gate). The exponential clamps, so NaN must pass beside it.
float gated(float x, float gate) { return gate == gate ? x / (1.0f + exp_clamped(-gate)) : gate; }

void sigmoid_gate(const SigmoidGateArgs& args, Worker& worker) {
  if (args.one_per_row) {
    for (int64_t begin, end; worker.claim(0, *args.rows, delta_chunk(args.width), &begin, &end);) {
      for (int64_t i = begin * args.width; i < end * args.width; ++i)
        args.out[i] = gated(args.x[i], args.gate[i / args.width]);
    }
    return;
  }
  const int64_t total = *args.rows * args.width;
  for (int64_t begin, end; worker.claim(0, total, kDeltaChunkElements, &begin, &end);) {
    for (int64_t i = begin; i < end; ++i) args.out[i] = gated(args.x[i], args.gate[i]);
  }
}

void add_delta_net_kernels(KernelTable& table) {
  table.short_convolution = short_convolution;
  table.l2_norm = l2_norm;
  table.delta_gates = make_delta_gates;
  table.gated_delta = gated_delta;
  table.gated_rms_norm = gated_rms_norm;
  table.split_gate = split_gate;
  table.sigmoid_gate = sigmoid_gate;
  table.gated_delta_scratch = delta_scratch;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
