// Softmax attention of a few queries over one split: scores, weights, weighted values. Each is one loop
// order, whatever the tile:
//   score     q·k over d ascending, one chain per position; then the scale, then the soft cap
//   sum       weights by lane (position modulo the vector) ascending, lanes folded in halves
//   values    over positions ascending, one chain per d
// so a query's result is the same in any tile. Positions are local to the split. A query never touches the
// values of a position that it doesn't see, not even with weight 0.
//
// Keys are transposed [d][position], a few positions at a time, so that lanes hold positions and need no
// reduction; values are used as they lie, lanes along d. Both are read where the cache has them.
#pragma once

#include "kernels/cpu/attention_codes-inl.h"
#include "kernels/cpu/attention_dots-inl.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_source-inl.h"
#include "kernels/cpu/softcap_row-inl.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Queries that one register tile takes at most; smaller powers of two take the rest.
constexpr int kMaxQueryTile = kLanes == 16 ? 8 : 4;

// The queries of one tile and what a split makes of them. Memory: see tile_bytes().
struct TileMemory {
  float*
      packed;  // queries in groups of a register tile: group at query i is [head_dim][width] at i · head_dim
  float* scores;   // [queries][kSplit], then weights
  float* sums;     // [queries][head_dim] weighted values of this split
  float* keys;     // [head_dim][kKeyTile]
  float* largest;  // [queries] of this split
  float* totals;   // [queries]
  int32_t* from;   // [queries] visible positions, local to the split
  int32_t* to;
};

constexpr int64_t tile_floats(int64_t queries, int64_t head_dim) {
  return queries * (2 * head_dim + kSplit + 4) + head_dim * kKeyTile;
}

TileMemory divide_memory(float* memory, int64_t queries, int64_t head_dim) {
  TileMemory tile;
  const auto take = [&](int64_t floats) {
    float* start = memory;
    memory += floats;
    return start;
  };
  tile.keys = take(head_dim * kKeyTile);
  tile.scores = take(queries * kSplit);
  tile.packed = take(queries * head_dim);
  tile.sums = take(queries * head_dim);
  tile.largest = take(queries);
  tile.totals = take(queries);
  tile.from = reinterpret_cast<int32_t*>(take(queries));
  tile.to = reinterpret_cast<int32_t*>(take(queries));
  return tile;
}

// A width that is a type, for generic lambdas.
template <int kWidth>
struct TileWidth {
  static constexpr int value = kWidth;
};

// Width of the register tile that takes the next of `left` queries.
int register_tile(int64_t left) {
  int width = kMaxQueryTile;
  while (width > left) width /= 2;
  return width;
}

// Whether products with what is stored are bf16 dot products (attention_dots-inl.h).
#if defined(__AVX512BF16__)
constexpr bool is_paired(Stored stored) { return stored == Stored::bf16; }
#else
constexpr bool is_paired(Stored) { return false; }
#endif

// Calls body(i, Count) for register tiles of the queries; Count::value queries from i on.
template <class Body>
void for_register_tiles(int64_t queries, const Body& body) {
  for (int64_t i = 0; i < queries;) {
    const int width = register_tile(queries - i);
    if (width == 8) body(i, TileWidth<8>());
    if (width == 4) body(i, TileWidth<4>());
    if (width == 2) body(i, TileWidth<2>());
    if (width == 1) body(i, TileWidth<1>());
    i += width;
  }
}

// ---- scores

// Transposes the keys at positions [p, p + kKeyTile) to fp32 and fetches `next`, the rows needed after them.
void expand_keys(const SplitSource& source, int64_t p, const std::byte* const* next, float* out) {
  switch (source.stored) {
    case Stored::f32:
      return transpose_keys<false>(source.keys + p, next, source.head_dim, out);
    case Stored::bf16:
      return transpose_keys<true>(source.keys + p, next, source.head_dim, out);
    case Stored::codes8:
      return transpose_codes<8>(source, p, next, out);
    case Stored::codes4:
      return transpose_codes<4>(source, p, next, out);
  }
}

// scores[i][p] = scale · Σ_d q[d][i] · keys[d][p] for one register tile of queries and all kKeyTile
// positions.
template <int kQueries>
void score_keys(const float* q, const float* keys, int64_t head_dim, float scale, float* scores) {
  // Enough chains to hide an addition's latency, few enough to stay in registers.
  constexpr int kVectors = kQueries == kMaxQueryTile || kLanes == 16 ? 2 : 4;
  for (int64_t p = 0; p < kKeyTile; p += kVectors * kLanes) {
    Floats sums[kQueries][kVectors] = {};
    for (int64_t d = 0; d < head_dim; ++d) {
      Floats key[kVectors];
      for (int j = 0; j < kVectors; ++j) key[j] = load(keys + d * kKeyTile + p + j * kLanes);
      for (int i = 0; i < kQueries; ++i) {
        const Floats query = broadcast(q[d * kQueries + i]);
        for (int j = 0; j < kVectors; ++j) sums[i][j] = multiply_add(query, key[j], sums[i][j]);
      }
    }
    for (int i = 0; i < kQueries; ++i) {
      for (int j = 0; j < kVectors; ++j) store(scores + i * kSplit + p + j * kLanes, sums[i][j] * scale);
    }
  }
}

// Scores straight from codes if one register tile is all the queries there are; false: not done.
bool score_codes_of_few(const TileMemory& tile, int64_t queries, const SplitSource& source, int64_t p,
                        const std::byte* const* next, float scale) {
  if constexpr (kLanes < 16) return false;
  float* scores = tile.scores + p;
  const auto score = [&]<int kQueries>() {
    if (source.stored == Stored::codes8)
      score_codes<8, kQueries>(source, p, next, tile.packed, scale, scores);
    else
      score_codes<4, kQueries>(source, p, next, tile.packed, scale, scores);
    return true;
  };
  if (source.stored != Stored::codes8 && source.stored != Stored::codes4) return false;
  switch (queries) {
    case 8:
      return score.template operator()<8>();
    case 4:
      return score.template operator()<4>();
    case 2:
      return score.template operator()<2>();
    case 1:
      return score.template operator()<1>();
    default:
      return false;
  }
}

#if defined(__AVX512BF16__)
void score_pairs(const TileMemory& tile, int64_t queries, const SplitSource& source, int64_t p,
                 const std::byte* const* next, float scale) {
  auto* keys = reinterpret_cast<uint32_t*>(tile.keys);
  transpose_key_pairs(source.keys + p, next, source.head_dim, keys);
  for_register_tiles(queries, [&](int64_t i, auto width) {
    const auto* q = reinterpret_cast<const uint32_t*>(tile.packed) + i * source.head_dim / 2;
    score_key_pairs<width.value>(q, keys, source.head_dim, scale, tile.scores + i * kSplit + p);
  });
}
#endif

// Adds to one query's scores of a key tile from codes what their keys are stored relative to
// (key_reference_rows()): the means of scores before them in the block, whose sums it takes four by four.
// `scores`: of the block's first position.
void add_key_references(float* scores, bool is_first_tile) {
  const auto sum_of = [](const float* s) { return (s[0] + s[1]) + (s[2] + s[3]); };
  const auto add = [&](int from, int to, float mean) {
    for (int p = from; p < to; ++p) scores[p] += mean;
  };
  static_assert(kKeyTile == 32 && kBlockPositions == 64);
  if (is_first_tile) {
    add(4, 8, sum_of(scores) * 0.25f);
    add(8, 16, (sum_of(scores) + sum_of(scores + 4)) * 0.125f);
    const float lower = sum_of(scores) + sum_of(scores + 4), upper = sum_of(scores + 8) + sum_of(scores + 12);
    return add(16, 32, (lower + upper) * 0.0625f);
  }
  float quarters[4];
  for (int i = 0; i < 4; ++i) quarters[i] = sum_of(scores + 8 * i) + sum_of(scores + 8 * i + 4);
  add(32, 64, ((quarters[0] + quarters[1]) + (quarters[2] + quarters[3])) * 0.03125f);
}

void score_split(const TileMemory& tile, int64_t queries, const SplitSource& source, float scale) {
  const int64_t head_dim = source.head_dim;
  // Keys from codes need those before them in the block.
  const int64_t start = source.group_size > 0 ? kBlockPositions : kKeyTile;
  const int64_t first = source.from / start * start;
  const int64_t keys_end = (source.to + kKeyTile - 1) / kKeyTile * kKeyTile;
  for (int64_t p = first; p < source.to; p += kKeyTile) {
    const auto add_references = [&] {
      const int64_t block = p / kBlockPositions * kBlockPositions;
      for (int64_t i = 0; i < queries; ++i)
        add_key_references(tile.scores + i * kSplit + block, /*is_first_tile=*/p == block);
    };
    const int64_t ahead = p + fetch_distance(source.stored);  // after the last keys, the first values
    const std::byte* const* next =
        ahead < keys_end ? source.keys + ahead : source.values + first + (ahead - keys_end);
#if defined(__AVX512BF16__)
    if (is_paired(source.stored)) {
      score_pairs(tile, queries, source, p, next, scale);
      continue;
    }
#endif
    if (source.group_size > 0) fetch_scales(source, p);
    if (score_codes_of_few(tile, queries, source, p, next, scale)) {
      add_references();
      continue;
    }
    expand_keys(source, p, next, tile.keys);
    for_register_tiles(queries, [&](int64_t i, auto width) {
      score_keys<width.value>(tile.packed + i * head_dim, tile.keys, head_dim, scale,
                              tile.scores + i * kSplit + p);
    });
    if (source.group_size > 0) add_references();
  }
}

// ---- weights

// Turns one query's scores into weights e^(score − largest) and leaves zeros beside them to a whole vector.
// `paired`: the weights are left rounded to bf16, pairs of positions as words.
void weigh_positions(float* scores, int64_t from, int64_t to, bool paired, float* largest, float* total) {
  const int64_t first = from / kLanes * kLanes, last = (to + kLanes - 1) / kLanes * kLanes;
  for (int64_t p = first; p < from; ++p) scores[p] = -__builtin_inff();
  for (int64_t p = to; p < last; ++p) scores[p] = -__builtin_inff();
  Floats maxima = broadcast(-__builtin_inff());
  for (int64_t p = first; p < last; p += kLanes) maxima = maximum(load(scores + p), maxima);
  *largest = largest_lane(maxima);
  Floats sums = {};
  for (int64_t p = first; p < last; p += kLanes) {
    const Floats weights = exp_nonpositive(load(scores + p) - *largest);
    store(scores + p, weights);
    sums += weights;
  }
#if defined(__AVX512BF16__)
  if (paired) sums = round_weights(scores, first, last);
#else
  (void)paired;
#endif
  *total = sum_of_lanes(sums);
}

// ---- values

// Values by position of the split, and for codes the scales and biases of the key tile's positions in fp32:
// [group][scale | bias][kKeyTile].
struct ValueRows {
  const std::byte* const* rows;
  const float* scales = nullptr;
  int64_t group_size = 0;

  const float* scales_of(int64_t dim) const { return scales + dim / group_size * 2 * kKeyTile; }
};

// sums[i][dim …] += Σ_p weights[i][p] · values[p][dim …] over `count` positions from `first` on (`weights`
// too start there): kVectors vectors of dims, or the 8 dims of half a vector.
template <int kQueries, int kVectors, Stored kStored, bool kHalf = false>
void add_values(const ValueRows& values, int64_t first, int64_t count, const float* weights, int64_t head_dim,
                int64_t dim, bool fetch, float* sums) {
  // Of 8 values: those of 4 bits are half a byte each.
  constexpr int64_t kBits = kStored == Stored::f32      ? 32
                            : kStored == Stored::bf16   ? 16
                            : kStored == Stored::codes8 ? 8
                                                        : 4;
  const auto load_sums = [&](int i, int j) {
    const float* from = sums + i * head_dim + dim + j * kLanes;
    if constexpr (!kHalf) return load(from);
    Floats v = {};
    std::memcpy(&v, from, 32);
    return v;
  };
  const float* scales[kVectors] = {};
  if constexpr (kBits <= 8) {
    for (int j = 0; j < kVectors; ++j) scales[j] = values.scales_of(dim + j * kLanes) + first % kKeyTile;
  }
  const std::byte* const* rows = values.rows + first;
  const auto load_values = [&](int64_t p, int j) {
    const std::byte* from = rows[p] + (dim + j * kLanes) * kBits / 8;
    if constexpr (kBits <= 8) {
      const Floats code = load_codes<kBits, kLanes>(rows[p], dim + j * kLanes);
      return multiply_add(code, broadcast(scales[j][p]), broadcast(scales[j][p + kKeyTile]));
    } else if constexpr (kHalf) {
      std::byte padded[64] = {};
      std::memcpy(padded, from, kBits);
      if constexpr (kStored == Stored::bf16) return load_bf16(padded);
      return load(reinterpret_cast<const float*>(padded));
    } else {
      if constexpr (kStored == Stored::bf16) return load_bf16(from);
      return load(reinterpret_cast<const float*>(from));
    }
  };
  Floats sum[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int j = 0; j < kVectors; ++j) sum[i][j] = load_sums(i, j);
  }
  for (int64_t p = 0; p < count; ++p) {
    if (fetch) {
      constexpr int64_t kBytesHere = kVectors * kLanes * kBits / 8;
      for (int64_t i = 0; i < kBytesHere; i += 64)
        __builtin_prefetch(rows[p + fetch_distance(kStored)] + dim * kBits / 8 + i, 0, 2);
    }
    Floats value[kVectors];
    for (int j = 0; j < kVectors; ++j) value[j] = load_values(p, j);
    for (int i = 0; i < kQueries; ++i) {
      const Floats weight = broadcast(weights[i * kSplit + p]);
      for (int j = 0; j < kVectors; ++j) sum[i][j] = multiply_add(weight, value[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      std::memcpy(sums + i * head_dim + dim + j * kLanes, &sum[i][j], kHalf ? 32 : sizeof(Floats));
    }
  }
}

// The positions [from, to) for one register tile of queries, all dims.
template <int kQueries, Stored kStored>
void add_value_rows(const ValueRows& values, int64_t head_dim, int64_t from, int64_t to, const float* weights,
                    bool fetch, float* sums) {
  if (from >= to) return;
  constexpr int kVectors = kQueries == 8 ? 2 : kQueries == 4 && kLanes < 16 ? 2 : 4;
  const int64_t count = to - from;
  int64_t dim = 0;
  for (; dim + kVectors * kLanes <= head_dim; dim += kVectors * kLanes) {
    add_values<kQueries, kVectors, kStored>(values, from, count, weights + from, head_dim, dim, fetch, sums);
  }
  for (; dim + kLanes <= head_dim; dim += kLanes) {
    add_values<kQueries, 1, kStored>(values, from, count, weights + from, head_dim, dim, fetch, sums);
  }
  if constexpr (kLanes > 8 && (kStored == Stored::f32 || kStored == Stored::bf16)) {
    if (dim < head_dim) {
      add_values<kQueries, 1, kStored, true>(values, from, count, weights + from, head_dim, dim, fetch, sums);
    }
  }
}

struct LocalRange {
  int64_t from, to;
};
LocalRange intersect(LocalRange a, LocalRange b) {
  return {a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to};
}

// One block of positions for the register tile of queries from i on: what all of them see together, what lies
// before and after it singly.
template <int kQueries, Stored kStored>
void add_block(const TileMemory& tile, int64_t i, const ValueRows& values, int64_t head_dim, LocalRange block,
               bool fetch) {
  const float* weights = tile.scores + i * kSplit;
  float* sums = tile.sums + i * head_dim;
  LocalRange common = {0, kSplit};
  for (int q = 0; q < kQueries; ++q) common = intersect(common, {tile.from[i + q], tile.to[i + q]});
  if (common.from >= common.to) common = {kSplit, kSplit};
  const auto add_singly = [&](LocalRange range) {
    for (int q = 0; q < kQueries; ++q) {
      const LocalRange seen = intersect(intersect(range, block), {tile.from[i + q], tile.to[i + q]});
      add_value_rows<1, kStored>(values, head_dim, seen.from, seen.to, weights + q * kSplit, false,
                                 sums + q * head_dim);
    }
  };
  add_singly({0, common.from});
  const LocalRange shared = intersect(common, block);
  add_value_rows<kQueries, kStored>(values, head_dim, shared.from, shared.to, weights, fetch, sums);
  add_singly({common.to, kSplit});
}

template <Stored kStored>
void add_block_to_all(const TileMemory& tile, int64_t queries, const ValueRows& values, int64_t head_dim,
                      LocalRange block, bool fetch) {
  for_register_tiles(queries, [&](int64_t i, auto width) {
    add_block<width.value, kStored>(tile, i, values, head_dim, block, fetch && i == 0);
  });
}

#if defined(__AVX512BF16__)
// add_block in pairs of positions: those that all queries of the register tile see together.
template <int kQueries>
void add_pair_block(const TileMemory& tile, int64_t i, const SplitSource& source, LocalRange block,
                    bool fetch) {
  const int64_t head_dim = source.head_dim;
  const float* weights = tile.scores + i * kSplit;
  float* sums = tile.sums + i * head_dim;
  LocalRange common = {0, kSplit};
  for (int q = 0; q < kQueries; ++q) common = intersect(common, {tile.from[i + q], tile.to[i + q]});
  common = {(common.from + 1) / 2 * 2, common.to / 2 * 2};
  if (common.from >= common.to) common = {kSplit, kSplit};
  const auto add_singly = [&](LocalRange range) {
    for (int q = 0; q < kQueries; ++q) {
      const LocalRange seen = intersect(intersect(range, block), {tile.from[i + q], tile.to[i + q]});
      add_paired_rows<1>(source.values, head_dim, seen.from, seen.to, weights + q * kSplit, false,
                         sums + q * head_dim);
    }
  };
  add_singly({0, common.from});
  const LocalRange shared = intersect(common, block);
  add_paired_rows<kQueries>(source.values, head_dim, shared.from, shared.to, weights, fetch, sums);
  add_singly({common.to, kSplit});
}
#endif

// fp32 copies of a block's values, in the memory that transposed keys had; rows[p] points at position p's.
void expand_values(const TileMemory& tile, const SplitSource& source, LocalRange block,
                   const std::byte** rows) {
  float* to = tile.keys;
  for (int64_t p = block.from; p < block.to; ++p, to += source.head_dim) {
    rows[p] = reinterpret_cast<const std::byte*>(to);
    if (source.stored == Stored::bf16) expand_bf16(source.values[p], source.head_dim, to);
    if (source.stored == Stored::codes8) expand_codes<8>(source, p, to);
    if (source.stored == Stored::codes4) expand_codes<4>(source, p, to);
  }
}

// The scales and biases of the values at positions [first, first + kKeyTile), in the memory that transposed
// keys had.
ValueRows rows_with_scales(const TileMemory& tile, const SplitSource& source, int64_t first) {
  const std::byte* from = source.value_scales[first / kBlockPositions];
  float* to = tile.keys;
  for (int64_t d = 0; d < source.head_dim; d += source.group_size) {
    for (int64_t p = 0; p < kKeyTile; p += kLanes) {
      const GroupScales group = load_scales(from, (first + p) % kBlockPositions);
      store(to + p, group.scale);
      store(to + kKeyTile + p, group.bias);
    }
    from += kGroupScalesBytes;
    to += 2 * kKeyTile;
  }
  return {source.values, tile.keys, source.group_size};
}

// Blocks of so many positions that their values stay in the nearest cache while all queries pass over them.
// Expanding them first pays when several register tiles share it; the sums are the same bits either way.
void add_split(const TileMemory& tile, int64_t queries, const SplitSource& source) {
  const std::byte* expanded[kSplit];
  const bool is_narrow = queries <= kMaxQueryTile, whole_vectors = source.group_size % kLanes == 0;
  for (int64_t p = source.from / kKeyTile * kKeyTile; p < source.to; p += kKeyTile) {
    const LocalRange block = intersect({source.from, source.to}, {p, p + kKeyTile});
    const auto add = [&]<Stored kStored>(const ValueRows& rows, bool fetch) {
      add_block_to_all<kStored>(tile, queries, rows, source.head_dim, block, fetch);
    };
#if defined(__AVX512BF16__)
    if (is_paired(source.stored)) {
      for_register_tiles(queries, [&](int64_t i, auto width) {
        add_pair_block<width.value>(tile, i, source, block, i == 0);
      });
      continue;
    }
#endif
    if (source.stored == Stored::f32) {
      add.template operator()<Stored::f32>({source.values}, true);
    } else if (source.stored == Stored::bf16 && is_narrow) {
      add.template operator()<Stored::bf16>({source.values}, true);
    } else if (source.stored == Stored::codes8 && is_narrow && whole_vectors) {
      add.template operator()<Stored::codes8>(rows_with_scales(tile, source, p), true);
    } else if (source.stored == Stored::codes4 && is_narrow && whole_vectors) {
      add.template operator()<Stored::codes4>(rows_with_scales(tile, source, p), true);
    } else {
      expand_values(tile, source, block, expanded);
      add.template operator()<Stored::f32>({expanded}, false);
    }
  }
}

// ---- a split, and the merge of splits

// Fills tile.largest, tile.totals and tile.sums for the queries with positions in this split. Expects
// tile.packed, tile.from and tile.to (from ≥ to: no position here; its results are then undefined).
void attend_split(const TileMemory& tile, int64_t queries, const SplitSource& source, float scale,
                  float softcap) {
  score_split(tile, queries, source, scale);
  for (int64_t i = 0; i < queries; ++i) {
    if (tile.from[i] >= tile.to[i]) continue;
    float* seen = tile.scores + i * kSplit + tile.from[i];
    if (softcap > 0) softcap_row(seen, tile.to[i] - tile.from[i], softcap, seen);
    weigh_positions(tile.scores + i * kSplit, tile.from[i], tile.to[i], is_paired(source.stored),
                    tile.largest + i, tile.totals + i);
  }
  std::memset(tile.sums, 0, queries * source.head_dim * 4);
  add_split(tile, queries, source);
}

// A query's result over the splits so far. Starts as {−∞, 0} and any values: the first merge copies.
struct Merged {
  float largest, total;
  float* sums;  // [head_dim]
};

void merge_split(Merged& into, float largest, float total, const float* sums, int64_t head_dim) {
  if (into.total == 0) {
    into.largest = largest;
    into.total = total;
    std::memcpy(into.sums, sums, head_dim * 4);
    return;
  }
  const float both = largest > into.largest ? largest : into.largest;
  const Floats old_scale = exp_nonpositive(broadcast(into.largest - both));
  const Floats new_scale = exp_nonpositive(broadcast(largest - both));
  into.largest = both;
  into.total = into.total * old_scale[0] + total * new_scale[0];
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    store(into.sums + d, load(into.sums + d) * old_scale + load(sums + d) * new_scale);
  }
  for (; d < head_dim; ++d) into.sums[d] = into.sums[d] * old_scale[0] + sums[d] * new_scale[0];
}

// out[d] = sums[d] / total; zeros where no position was seen.
void write_output(const Merged& merged, int64_t head_dim, float* out) {
  if (merged.total == 0) {
    std::memset(out, 0, head_dim * 4);
    return;
  }
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) store(out + d, load(merged.sums + d) / merged.total);
  for (; d < head_dim; ++d) out[d] = merged.sums[d] / merged.total;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER
