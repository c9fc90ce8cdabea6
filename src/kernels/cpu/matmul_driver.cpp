#include "kernels/cpu/matmul_driver.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/check.h"
#include "tensor/format_table.h"

namespace rafter::kernels {
namespace {

int64_t align64(int64_t bytes) { return (bytes + 63) & ~int64_t{63}; }

// Everything about an op that does not depend on the live row count.
struct Layout {
  int64_t columns = 0;   // K
  int64_t outputs = 0;   // columns to claim, over all segments (gated: of gate)
  int64_t segments = 0;  // with an output of their own
  MatmulBody bodies[MatmulArgs::kMaxSegments];
  int64_t input_offset[MatmulArgs::kMaxSegments];  // of each segment's form of x inside a prepared row
  bool shares_input[MatmulArgs::kMaxSegments];     // an earlier segment prepares it
  int64_t input_stride = 0;                        // bytes of a prepared row, all forms

  Layout(const MatmulTier& tier, const MatmulArgs& args) : columns(args.columns) {
    const bool gated = is_gated(args.epilogue);
    segments = gated ? 1 : args.segment_count;
    for (int s = 0; s < args.segment_count; ++s) {
      const tensor::MatrixView& weight = args.segments[s].weight;
      RAFTER_CHECK(weight.columns == columns, "segment {} has {} columns, x {}", s, weight.columns, columns);
      if (s < segments) outputs += weight.rows;
      bodies[s] = tier.choose(weight.format, args.precision);
      input_offset[s] = input_stride;
      shares_input[s] = false;
      for (int t = 0; t < s && !shares_input[s]; ++t) {
        shares_input[s] = bodies[t].prepare == bodies[s].prepare;
        if (shares_input[s]) input_offset[s] = input_offset[t];
      }
      if (!shares_input[s]) input_stride += bodies[s].input_bytes(columns);
    }
    if (gated) {
      RAFTER_CHECK(args.segment_count == 2 && args.segments[0].weight.rows == args.segments[1].weight.rows,
                   "a gated activation takes gate and up of one shape");
    }
    RAFTER_CHECK(args.epilogue != MatmulEpilogue::add || args.segment_count == 1, "add takes one segment");
  }

  int64_t body_scratch(int segment_count, int64_t rows) const {
    int64_t most = 0;
    for (int s = 0; s < segment_count; ++s)
      most = std::max(most, body_scratch_bytes(bodies[s], rows, columns));
    return most;
  }
};

// A worker's scratch: one normed row, prepared rows of its own, sums of one claim (twice: gate and up), then
// the body's.
struct WorkerScratch {
  int64_t normed = 0, inputs = 0, sums = 0, sums_up = 0, body = 0, bytes = 0;

  WorkerScratch(const Layout& layout, int segment_count, int64_t rows) {
    const int64_t sums_bytes = align64(4 * most_claimed(rows));
    inputs = normed + align64(4 * layout.columns);
    sums = inputs + std::min(rows, kPrivateRows) * layout.input_stride;
    sums_up = sums + sums_bytes;
    body = sums_up + sums_bytes;
    bytes = body + layout.body_scratch(segment_count, rows);
  }
};

void prepare_row(const MatmulTier& tier, const MatmulArgs& args, const Layout& layout, int64_t r,
                 float* normed, std::byte* prepared) {
  const float* x = args.x + r * args.columns;
  if (args.norm_weight != nullptr) {
    tier.norm_row(x, args.norm_weight, args.columns, args.norm_epsilon, normed);
    x = normed;
  }
  for (int s = 0; s < args.segment_count; ++s) {
    if (!layout.shares_input[s]) layout.bodies[s].prepare(x, args.columns, prepared + layout.input_offset[s]);
  }
}

// A claim [begin, end) of all segments' columns, as columns of each; of gate and up if the op is gated.
struct Runs {
  int count = 0;
  int segment[MatmulArgs::kMaxSegments];
  MatmulRun run[MatmulArgs::kMaxSegments];

  Runs() = default;
  Runs(const MatmulArgs& args, int segments, int64_t begin, int64_t end) {
    const auto add = [&](int s, int64_t from, int64_t to) {
      segment[count] = s;
      run[count++] = {&args.segments[s].weight, from, to};
    };
    int64_t start = 0;
    for (int s = 0; s < segments; ++s) {
      const int64_t width = args.segments[s].weight.rows;
      const int64_t from = std::max(begin - start, int64_t{0}), to = std::min(end - start, width);
      start += width;
      if (from >= to) continue;
      add(s, from, to);
      if (is_gated(args.epilogue)) add(1, from, to);
    }
  }
};

// The rest of the claim, then the claim that would be taken now. (Taking it early instead leaves the other
// workers waiting at the end: 6 % of a step.)
class Foresight final : public MatmulForesight {
 public:
  Foresight(const MatmulArgs& args, const Layout& layout, const Worker& worker, const Runs& runs, int i)
      : args_(args), layout_(layout), worker_(worker), runs_(runs), i_(i) {}

  MatmulRun next() const override {
    if (i_ + 1 < runs_.count) return runs_.run[i_ + 1];
    const int64_t begin = worker_.unclaimed(0);
    if (begin >= layout_.outputs) return {};
    const int64_t size = claim_size(*args_.rows, layout_.outputs, begin, worker_.count());
    return Runs(args_, layout_.segments, begin, std::min(begin + size, layout_.outputs)).run[0];
  }

 private:
  const MatmulArgs& args_;
  const Layout& layout_;
  const Worker& worker_;
  const Runs& runs_;
  int i_;
};

// Finishes columns [begin, begin + width) of one segment from their sums.
struct Finish {
  const MatmulTier& tier;
  const MatmulArgs& args;
  int64_t rows;
  float* sums;
  float* sums_up;
  int64_t sums_stride;

  void operator()(int s, int64_t begin, int64_t width) const {
    const MatmulSegment& segment = args.segments[s];
    const int64_t stride = segment.weight.rows;
    for (int64_t r = 0; r < rows; ++r) {
      float* row = sums + r * sums_stride;
      float* out = segment.out + r * stride + begin;
      if (segment.bias != nullptr) add(row, segment.bias + begin, width, row);
      switch (args.epilogue) {
        case MatmulEpilogue::store:
          std::copy_n(row, width, out);
          break;
        case MatmulEpilogue::add:
          add(args.residual + r * stride + begin, row, width, out);
          break;
        case MatmulEpilogue::swiglu:
        case MatmulEpilogue::geglu: {
          float* up = sums_up + r * sums_stride;
          if (args.segments[1].bias != nullptr) add(up, args.segments[1].bias + begin, width, up);
          const bool is_silu = args.epilogue == MatmulEpilogue::swiglu;
          (is_silu ? tier.swiglu_row : tier.geglu_row)(row, up, width, out);
          break;
        }
      }
    }
  }

  static void add(const float* a, const float* b, int64_t width, float* out) {
    for (int64_t i = 0; i < width; ++i) out[i] = a[i] + b[i];
  }
};

}  // namespace

int64_t most_claimed(int64_t rows) {
  int64_t most = 0;
  for (int64_t count : {kPrivateRows, kFewRows, rows}) {
    most = std::max(most, std::min(count, rows) * longest_claim(std::min(count, rows)));
  }
  return most;
}

int64_t claim_size(int64_t rows, int64_t outputs, int64_t done, int workers) {
  const int64_t fair = (outputs - done) / (2 * workers);
  if (rows > kFewRows) {
    return std::clamp(fair / kShortestManyRowsClaim * kShortestManyRowsClaim, kShortestManyRowsClaim,
                      kManyRowsClaim);
  }
  return std::clamp(fair / kShortestClaim * kShortestClaim, kShortestClaim, longest_claim(rows));
}

int64_t body_scratch_bytes(const MatmulBody& body, int64_t rows, int64_t columns) {
  const int64_t unpacked = body.unpacked_rows != nullptr ? align64(body.unpacked_rows(rows) * columns) : 0;
  return unpacked + align64(body.scratch_bytes(rows, columns));
}

void run_matmul(const MatmulTier& tier, const MatmulArgs& args, Worker& worker) {
  const int64_t rows = *args.rows;
  if (rows <= 0 || args.segment_count == 0) return;
  const Layout layout(tier, args);
  const WorkerScratch place(layout, args.segment_count, rows);
  std::byte* scratch = worker.scratch().data();
  RAFTER_CHECK(static_cast<int64_t>(worker.scratch().size()) >= place.bytes, "scratch of {} bytes, {} needed",
               worker.scratch().size(), place.bytes);
  const bool is_private = rows <= kPrivateRows;
  if (!is_private) {
    RAFTER_CHECK(static_cast<int64_t>(worker.shared().size()) >= rows * layout.input_stride,
                 "shared scratch of {} bytes, {} needed", worker.shared().size(), rows * layout.input_stride);
  }

  std::byte* inputs = is_private ? scratch + place.inputs : worker.shared().data();
  float* normed = reinterpret_cast<float*>(scratch + place.normed);
  const int64_t first = is_private ? 0 : worker.index(), step = is_private ? 1 : worker.count();
  for (int64_t r = first; r < rows; r += step) {
    prepare_row(tier, args, layout, r, normed, inputs + r * layout.input_stride);
  }
  if (!is_private) worker.barrier();

  const int64_t sums_stride = longest_claim(rows);
  float* sums = reinterpret_cast<float*>(scratch + place.sums);
  float* sums_up = reinterpret_cast<float*>(scratch + place.sums_up);
  const Finish finish{tier, args, rows, sums, sums_up, sums_stride};
  int64_t begin = 0, end = 0;
  while (
      worker.claim(0, layout.outputs, claim_size(rows, layout.outputs, end, worker.count()), &begin, &end)) {
    const Runs runs(args, layout.segments, begin, end);
    for (int i = 0; i < runs.count; ++i) {
      const Foresight foresight(args, layout, worker, runs, i);
      const MatmulRun& run = runs.run[i];
      const int s = runs.segment[i];
      const bool is_up = is_gated(args.epilogue) && i == 1;
      layout.bodies[s].multiply({run.weight, run.begin, run.end, rows, inputs + layout.input_offset[s],
                                 layout.input_stride, scratch + place.body, is_up ? sums_up : sums,
                                 sums_stride, &foresight});
      if (is_up || !is_gated(args.epilogue)) finish(is_up ? 0 : s, run.begin, run.end - run.begin);
    }
  }
}

KernelTable::Scratch matmul_scratch(const MatmulTier& tier, const MatmulArgs& args, int64_t capacity) {
  const Layout layout(tier, args);
  const WorkerScratch place(layout, args.segment_count, capacity);
  const int64_t shared = capacity > kPrivateRows ? capacity * layout.input_stride : 0;
  return {static_cast<size_t>(place.bytes), static_cast<size_t>(shared)};
}

const char* matmul_kernel_name(const tensor::NumberFormat& format, int64_t rows) {
  static const std::map<std::string, std::pair<std::string, std::string>> names = [] {
    std::map<std::string, std::pair<std::string, std::string>> made;
    const auto add = [&](const tensor::NumberFormat& f) {
      const std::string q = f.kind == tensor::FormatKind::affine ? "q" : "";
      made[f.name()] = {q + "mv_" + f.name(), q + "mm_" + f.name()};
    };
    for (const tensor::FormatTraits& traits : tensor::all_format_traits()) {
      if (traits.kind == tensor::FormatKind::affine) continue;
      add(traits.block_columns == 0 ? tensor::NumberFormat::floating(traits.kind)
                                    : tensor::NumberFormat::block(traits.kind));
    }
    for (int bits : {2, 3, 4, 5, 6, 8}) {
      for (int group : {32, 64, 128}) add(tensor::NumberFormat::affine(bits, group, tensor::DType::bf16));
    }
    return made;
  }();
  const auto found = names.find(format.name());
  if (found == names.end()) return "unsupported";
  return (rows <= kPrivateRows ? found->second.first : found->second.second).c_str();
}

bool supports_matmul_format(const tensor::NumberFormat& format) {
  if (format.kind != tensor::FormatKind::affine) return true;
  const bool bits = format.bits >= 2 && format.bits <= 8 && format.bits != 7;
  const bool group = format.group == 32 || format.group == 64 || format.group == 128;
  return bits && group &&
         (format.scale_type == tensor::DType::bf16 || format.scale_type == tensor::DType::f16 ||
          format.scale_type == tensor::DType::f32);
}

}  // namespace rafter::kernels
