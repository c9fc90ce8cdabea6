// The row kernels of one tier. Nothing is contracted and no sum depends on the vector width, so every tier
// gives the same bits, and a loop's scalar tail the same as its vectors.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/geglu_row-inl.h"
#include "kernels/cpu/kv_codes-inl.h"
#include "kernels/cpu/norm_row-inl.h"
#include "kernels/cpu/router.h"
#include "kernels/cpu/rows_common.h"
#include "kernels/cpu/softcap_row-inl.h"
#include "kernels/cpu/swiglu_row-inl.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/op/kernel_table.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kChunkElements = 4096;  // per claim

// Items of `width` elements that one claim takes.
int64_t chunk_of(int64_t width) { return width < kChunkElements ? kChunkElements / width : 1; }

void rms_norm(const RmsNormArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.groups;
  for (int64_t begin, end; worker.claim(0, total, chunk_of(args.width), &begin, &end);) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t offset = g * args.width;
      norm_row(args.x + offset, args.weight, args.width, args.epsilon, args.out + offset);
    }
  }
}

void fused_rms_norm(const RmsNormArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.groups;
  for (int64_t begin, end; worker.claim(0, total, chunk_of(args.width), &begin, &end);) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t offset = g * args.width;
      norm_add_row(args.x + offset, args.weight, args.width, args.epsilon, args.residual + offset, args.scale,
                   args.out + offset);
    }
  }
}

void geglu(const GegluArgs& args, Worker& worker) {
  for (int64_t begin, end; worker.claim(0, *args.rows, chunk_of(args.width), &begin, &end);) {
    for (int64_t b = begin; b < end; ++b) {
      geglu_row(args.gate + b * args.width, args.up + b * args.up_stride + args.up_offset, args.width,
                args.out + b * args.width);
    }
  }
}

void scale(const ScaleArgs& args, Worker& worker) {
  const int64_t total = *args.rows * args.width;
  for (int64_t begin, end; worker.claim(0, total, kChunkElements, &begin, &end);) {
    for (int64_t i = begin; i < end; ++i) args.out[i] = args.factor * args.x[i];
  }
}

void softcap(const SoftcapArgs& args, Worker& worker) {
  const int64_t total = *args.rows * args.width;
  for (int64_t begin, end; worker.claim(0, total, kChunkElements, &begin, &end);) {
    softcap_row(args.x + begin, end - begin, args.cap, args.out + begin);
  }
}

void swiglu(const SwigluArgs& args, Worker& worker) {
  const int64_t total = *args.rows * args.width;
  for (int64_t begin, end; worker.claim(0, total, kChunkElements, &begin, &end);) {
    swiglu_row(args.gate + begin, args.up + begin, end - begin, args.out + begin);
  }
}

void add(const AddArgs& args, Worker& worker) {
  const int64_t total = *args.rows * args.width;
  for (int64_t begin, end; worker.claim(0, total, kChunkElements, &begin, &end);) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) store(args.out + i, load(args.a + i) + load(args.b + i));
    for (; i < end; ++i) args.out[i] = args.a[i] + args.b[i];
  }
}

// Where a head's values go: fp32 or bf16 memory of any alignment.
struct FloatSink {
  float* to;
  void put(int64_t i, Floats v) const { store(to + i, v); }
  void put(int64_t i, float value) const { to[i] = value; }
};
struct Bf16Sink {
  std::byte* to;
  void put(int64_t i, Floats v) const {
    const HalfWords narrow = to_bf16(v);
    std::memcpy(to + 2 * i, &narrow, sizeof(narrow));
  }
  void put(int64_t i, float value) const {
    const HalfWords narrow = to_bf16(Floats{value});
    std::memcpy(to + 2 * i, &narrow, 2);
  }
};

template <typename Sink>
void copy_values(const float* x, int64_t begin, int64_t end, Sink sink) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) sink.put(i, load(x + i));
  for (; i < end; ++i) sink.put(i, x[i]);
}

// Rotates one head x[head_dim] by one row's angles. The sink may be x itself.
template <typename Sink>
void rotate_head(const RopeArgs& args, const float* angles, const float* x, Sink sink) {
  const int64_t pairs = args.rotated_dims / 2;
  const float* cosines = angles;
  const float* sines = angles + pairs;
  int64_t i = 0;
  if (args.layout == RopeLayout::half) {
    for (; i + kLanes <= pairs; i += kLanes) {
      const Floats a = args.magnitude * load(x + i), b = args.magnitude * load(x + pairs + i);
      const Floats c = load(cosines + i), s = load(sines + i);
      sink.put(i, a * c - b * s);
      sink.put(pairs + i, a * s + b * c);
    }
  }
  const int64_t first_stride = args.layout == RopeLayout::half ? 1 : 2;
  const int64_t partner = args.layout == RopeLayout::half ? pairs : 1;
  for (; i < pairs; ++i) {
    const int64_t at = i * first_stride;
    const float a = args.magnitude * x[at], b = args.magnitude * x[at + partner];
    sink.put(at, a * cosines[i] - b * sines[i]);
    sink.put(at + partner, a * sines[i] + b * cosines[i]);
  }
  copy_values(x, args.rotated_dims, args.head_dim, sink);
}

void rope(const RopeArgs& args, Worker& worker) {
  const int64_t total = int64_t{*args.rows} * args.heads;
  for (int64_t begin, end; worker.claim(0, total, chunk_of(args.head_dim), &begin, &end);) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t offset = item * args.head_dim;
      const float* angles = args.angles + item / args.heads * args.rotated_dims;
      rotate_head(args, angles, args.x + offset, FloatSink{args.out + offset});
    }
  }
}

// Where a row's keys, or values, of one kv head go.
struct CacheSlot {
  int64_t block;  // offset in bytes from cache.keys or cache.values
  int64_t kv_head, slot;
};

CacheSlot slot_of(const StepInput& input, const KvLayer& cache, int64_t b, int64_t kv_head) {
  const int64_t position = input.positions[b];
  const int32_t* table = block_table(input, cache, b);
  return {table[position / kBlockPositions] * cache.block_stride, kv_head, position % kBlockPositions};
}

// Whether the row is the first of the step's in its block. Keys with codes are stored relative to those
// before them in the block: that row's worker appends them all, in order (for_each_in_block()).
bool leads_block(const StepInput& input, int64_t b) {
  if (input.positions[b] % kBlockPositions == 0) return true;
  int64_t before = b - 1;
  while (before >= 0 && input.sequences[before] != input.sequences[b]) --before;
  return before < 0;
}

template <typename Visit>
void for_each_in_block(const StepInput& input, int64_t b, const Visit& visit) {
  const int64_t block = input.positions[b] / kBlockPositions;
  for (int64_t row = b; row < input.rows; ++row) {
    if (input.sequences[row] != input.sequences[b]) continue;
    if (input.positions[row] / kBlockPositions != block) return;
    visit(row);
  }
}

// `side`: cache.keys or cache.values.
template <bool kIsKey>
void append_head(const KvLayer& cache, const float* x, std::byte* side, const CacheSlot& at) {
  if (cache.has_codes()) return quantize_row<kIsKey>(cache, side + at.block, at.kv_head, at.slot, x);
  std::byte* to = side + at.block + cache.offset(at.kv_head, at.slot);
  if (cache.type == tensor::DType::f32) {
    std::memcpy(to, x, cache.head_dim * 4);
  } else {
    copy_values(x, 0, cache.head_dim, Bf16Sink{to});
  }
}

// Rotates a key on its way into the cache.
void append_rotated(const RopeArgs& rope, const float* angles, const KvLayer& cache, const float* x,
                    const CacheSlot& at) {
  std::byte* to = cache.keys + at.block + cache.offset(at.kv_head, at.slot);
  if (cache.has_codes()) {
    alignas(64) float rotated[kMostHeadDim];
    rotate_head(rope, angles, x, FloatSink{rotated});
    quantize_row<true>(cache, cache.keys + at.block, at.kv_head, at.slot, rotated);
  } else if (cache.type == tensor::DType::f32) {
    rotate_head(rope, angles, x, FloatSink{reinterpret_cast<float*>(to)});
  } else {
    rotate_head(rope, angles, x, Bf16Sink{to});
  }
}

void kv_append(const KvAppendArgs& args, Worker& worker) {
  const KvLayer& cache = args.cache;
  const int64_t total = int64_t{args.input->rows} * cache.kv_heads;
  for (int64_t begin, end; worker.claim(0, total, chunk_of(2 * cache.head_dim), &begin, &end);) {
    for (int64_t item = begin; item < end; ++item) {
      const CacheSlot at = slot_of(*args.input, cache, item / cache.kv_heads, item % cache.kv_heads);
      append_head<false>(cache, args.v + item * cache.head_dim, cache.values, at);
      if (!cache.has_codes()) {
        append_head<true>(cache, args.k + item * cache.head_dim, cache.keys, at);
      } else if (leads_block(*args.input, item / cache.kv_heads)) {
        for_each_in_block(*args.input, item / cache.kv_heads, [&](int64_t b) {
          append_head<true>(cache, args.k + (b * cache.kv_heads + at.kv_head) * cache.head_dim, cache.keys,
                            slot_of(*args.input, cache, b, at.kv_head));
        });
      }
    }
  }
}

void rope_append(const RopeAppendArgs& args, Worker& worker) {
  const KvLayer& cache = args.cache;
  const int64_t head_dim = cache.head_dim, heads = args.q.heads, kv_heads = cache.kv_heads;
  const int64_t total = args.input->rows * (heads + kv_heads);
  for (int64_t begin, end; worker.claim(0, total, chunk_of(head_dim), &begin, &end);) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / (heads + kv_heads), head = item % (heads + kv_heads);
      if (head < heads) {
        const int64_t offset = (b * heads + head) * head_dim;
        rotate_head(args.q, args.q.angles + b * args.q.rotated_dims, args.q.x + offset,
                    FloatSink{args.q.out + offset});
        continue;
      }
      const int64_t kv_head = head - heads, offset = (b * kv_heads + kv_head) * head_dim;
      const CacheSlot at = slot_of(*args.input, cache, b, kv_head);
      append_head<false>(cache, args.v + offset, cache.values, at);
      const auto append_key = [&](int64_t row) {
        append_rotated(args.k, args.k.angles + row * args.k.rotated_dims, cache,
                       args.k.x + (row * kv_heads + kv_head) * head_dim,
                       slot_of(*args.input, cache, row, kv_head));
      };
      if (!cache.has_codes()) {
        append_key(b);
      } else if (leads_block(*args.input, b)) {
        for_each_in_block(*args.input, b, append_key);
      }
    }
  }
}

void add_row_kernels(KernelTable& table) {
  table.embed = embed_rows;
  table.rms_norm = rms_norm;
  table.rope_angles = make_rope_angles;
  table.rope = rope;
  table.kv_append = kv_append;
  table.swiglu = swiglu;
  table.geglu = geglu;
  table.scale = scale;
  table.softcap = softcap;
  table.add = add;
  table.select_rows = copy_wanted_rows;
  table.rope_append = rope_append;
  table.fused_rms_norm = fused_rms_norm;
  table.router = route_rows;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
