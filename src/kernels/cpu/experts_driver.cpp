#include "kernels/cpu/experts_driver.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::kernels {
namespace {

int64_t align64(int64_t bytes) { return (bytes + 63) & ~int64_t{63}; }

// Everything about an op that does not depend on the live row count.
struct Bodies {
  MatmulBody gate, up, down;
  int64_t up_offset = 0;     // of up's form of x inside a prepared row; 0: it reads gate's
  int64_t input_stride = 0;  // bytes of a prepared row of x
  int64_t hidden_stride = 0;

  Bodies(const MatmulTier& tier, const ExpertsArgs& args)
      : gate(tier.choose(args.gate[0].format, args.precision)),
        up(tier.choose(args.up[0].format, args.precision)),
        down(tier.choose(args.down[0].format, args.precision)),
        input_stride(gate.input_bytes(args.width)),
        hidden_stride(down.input_bytes(args.hidden)) {
    if (up.prepare == gate.prepare) return;
    up_offset = input_stride;
    input_stride += up.input_bytes(args.width);
  }
};

// The team's memory: prepared rows of x, the hidden values, and those prepared; a row for each pair.
struct SharedPlaces {
  int64_t inputs = 0, hidden = 0, hidden_inputs = 0, bytes = 0;

  SharedPlaces(const Bodies& bodies, const ExpertsArgs& args, int64_t rows) {
    const int64_t pairs = rows * args.chosen;
    hidden = inputs + pairs * bodies.input_stride;
    hidden_inputs = hidden + align64(4 * pairs * args.hidden);
    bytes = hidden_inputs + pairs * bodies.hidden_stride;
  }
};

class KnownNext final : public MatmulForesight {
 public:
  explicit KnownNext(const MatmulRun& run) : run_(run) {}
  MatmulRun next() const override { return run_; }

 private:
  MatmulRun run_;
};

// A worker's own: the grouping, the sums of one claim, then the body's scratch. Gate's and up's sums and
// down's are never alive together.
struct WorkerPlaces {
  int64_t starts = 0, active = 0, pairs = 0, positions = 0, sums = 0, sums_up = 0, body = 0, bytes = 0;

  WorkerPlaces(const Bodies& bodies, const ExpertsArgs& args, int64_t rows) {
    const int64_t all_pairs = rows * args.chosen, claim = longest_claim(rows);
    active = starts + align64(4 * (args.experts + 1));
    pairs = active + align64(4 * args.experts);
    positions = pairs + align64(4 * all_pairs);
    sums = positions + align64(4 * all_pairs);
    sums_up = sums + align64(4 * rows * claim);
    body = std::max(sums_up + align64(4 * rows * claim), sums + align64(4 * all_pairs * claim));
    bytes = body + std::max({body_scratch_bytes(bodies.gate, rows, args.width),
                             body_scratch_bytes(bodies.up, rows, args.width),
                             body_scratch_bytes(bodies.down, rows, args.hidden)});
  }
};

// The pairs of a step in order of expert, and of row within an expert. A pair is row · K + rank.
struct Groups {
  int32_t* starts;     // [E + 1] first position of each expert
  int32_t* active;     // [active_count] experts with rows, ascending
  int32_t* pairs;      // [positions]
  int32_t* positions;  // [pairs]
  int64_t active_count = 0;

  Groups(const ExpertsArgs& args, int64_t rows, std::byte* scratch, const WorkerPlaces& places)
      : starts(reinterpret_cast<int32_t*>(scratch + places.starts)),
        active(reinterpret_cast<int32_t*>(scratch + places.active)),
        pairs(reinterpret_cast<int32_t*>(scratch + places.pairs)),
        positions(reinterpret_cast<int32_t*>(scratch + places.positions)) {
    const int64_t count = rows * args.chosen;
    std::fill_n(starts, args.experts + 1, 0);
    for (int64_t p = 0; p < count; ++p) {
      const int32_t e = args.routes[p].expert;
      RAFTER_CHECK(e >= 0 && e < args.experts, "expert {} of {}", e, args.experts);
      ++starts[e + 1];
    }
    for (int32_t e = 0; e < args.experts; ++e) {
      if (starts[e + 1] > 0) active[active_count++] = e;
      starts[e + 1] += starts[e];
    }
    for (int64_t p = 0; p < count; ++p) {  // each start moves to its group's end …
      const int32_t position = starts[args.routes[p].expert]++;
      pairs[position] = static_cast<int32_t>(p);
      positions[p] = position;
    }
    for (int32_t e = args.experts; e > 0; --e) starts[e] = starts[e - 1];  // … where the next begins
    starts[0] = 0;
  }

  int64_t rows_of(int32_t expert) const { return starts[expert + 1] - starts[expert]; }
};

// One call on one worker.
class Run {
 public:
  Run(const MatmulTier& tier, const ExpertsArgs& args, Worker& worker)
      : tier_(tier),
        args_(args),
        worker_(worker),
        rows_(*args.rows),
        bodies_(tier, args),
        places_(bodies_, args, rows_),
        groups_(args, rows_, checked(worker.scratch(), places_.bytes), places_) {
    const SharedPlaces shared(bodies_, args, rows_);
    std::byte* memory = checked(worker.shared(), shared.bytes);
    inputs_ = memory + shared.inputs;
    hidden_ = reinterpret_cast<float*>(memory + shared.hidden);
    hidden_inputs_ = memory + shared.hidden_inputs;
    sums_ = reinterpret_cast<float*>(worker.scratch().data() + places_.sums);
    sums_up_ = reinterpret_cast<float*>(worker.scratch().data() + places_.sums_up);
  }

  void run() {
    if (worker_.index() == 0 && args_.experts_read != nullptr) *args_.experts_read = groups_.active_count;
    for (int64_t r = worker_.index(); r < rows_; r += worker_.count()) prepare_input(r);
    worker_.barrier();
    claim_runs(0, groups_.active_count * args_.hidden, [&](int64_t begin, int64_t end) {
      for (int64_t next; begin < end; begin = next) {
        const int64_t a = begin / args_.hidden;
        next = std::min(end, (a + 1) * args_.hidden);
        multiply_hidden(groups_.active[a], begin - a * args_.hidden, next - a * args_.hidden);
      }
    });
    worker_.barrier();
    const int64_t pairs = rows_ * args_.chosen;
    for (int64_t p = worker_.index(); p < pairs; p += worker_.count()) {
      bodies_.down.prepare(hidden_ + p * args_.hidden, args_.hidden,
                           hidden_inputs_ + p * bodies_.hidden_stride);
    }
    worker_.barrier();
    claim_runs(1, args_.width, [&](int64_t begin, int64_t end) { multiply_down(begin, end); });
  }

 private:
  static std::byte* checked(std::span<std::byte> memory, int64_t needed) {
    RAFTER_CHECK(static_cast<int64_t>(memory.size()) >= needed, "scratch of {} bytes, {} needed",
                 memory.size(), needed);
    return memory.data();
  }

  template <class Body>
  void claim_runs(int phase, int64_t total, const Body& body) {
    int64_t begin = 0, end = 0;
    while (worker_.claim(phase, total, claim_size(rows_, total, end, worker_.count()), &begin, &end)) {
      body(begin, end);
    }
  }

  std::byte* input_at(int64_t position) const { return inputs_ + position * bodies_.input_stride; }

  // Lays row r out at its first pair's place and copies it to the others'.
  void prepare_input(int64_t r) {
    const int32_t* positions = groups_.positions + r * args_.chosen;
    const float* x = args_.x + r * args_.width;
    std::byte* first = input_at(positions[0]);
    bodies_.gate.prepare(x, args_.width, first);
    if (bodies_.up_offset != 0) bodies_.up.prepare(x, args_.width, first + bodies_.up_offset);
    for (int32_t j = 1; j < args_.chosen; ++j) {
      std::copy_n(first, bodies_.input_stride, input_at(positions[j]));
    }
  }

  void multiply(const MatmulBody& body, const tensor::MatrixView& weight, int64_t begin, int64_t end,
                int64_t rows, const std::byte* inputs, int64_t stride, float* into, const MatmulRun& next) {
    const KnownNext foresight(next);
    body.multiply({&weight, begin, end, rows, inputs, stride, worker_.scratch().data() + places_.body, into,
                   longest_claim(rows_), &foresight});
  }

  // Hidden columns [begin, end) of one expert, for all its rows.
  void multiply_hidden(int32_t expert, int64_t begin, int64_t end) {
    const int64_t first = groups_.starts[expert], rows = groups_.rows_of(expert);
    const int64_t stride = longest_claim(rows_);
    const std::byte* inputs = input_at(first);
    multiply(bodies_.gate, args_.gate[expert], begin, end, rows, inputs, bodies_.input_stride, sums_,
             {&args_.up[expert], begin, end});
    multiply(bodies_.up, args_.up[expert], begin, end, rows, inputs + bodies_.up_offset, bodies_.input_stride,
             sums_up_, {});
    const auto gate_row = args_.activation == GatedActivation::swiglu ? tier_.swiglu_row : tier_.geglu_row;
    for (int64_t r = 0; r < rows; ++r) {
      gate_row(sums_ + r * stride, sums_up_ + r * stride, end - begin,
               hidden_ + (first + r) * args_.hidden + begin);
    }
  }

  // Columns [begin, end) of the output, for all rows.
  void multiply_down(int64_t begin, int64_t end) {
    const int64_t stride = longest_claim(rows_);
    for (int64_t a = 0; a < groups_.active_count; ++a) {
      const int32_t expert = groups_.active[a];
      const int64_t first = groups_.starts[expert];
      const MatmulRun next = a + 1 < groups_.active_count
                                 ? MatmulRun{&args_.down[groups_.active[a + 1]], begin, end}
                                 : MatmulRun{};
      multiply(bodies_.down, args_.down[expert], begin, end, groups_.rows_of(expert),
               hidden_inputs_ + first * bodies_.hidden_stride, bodies_.hidden_stride, sums_ + first * stride,
               next);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      float* out = args_.out + r * args_.width + begin;
      for (int32_t j = 0; j < args_.chosen; ++j) {
        const int64_t pair = r * args_.chosen + j;
        const float weight = args_.routes[pair].weight;
        const float* term = sums_ + groups_.positions[pair] * stride;
        for (int64_t i = 0; i < end - begin; ++i) {
          const float product = weight * term[i];
          out[i] = j == 0 ? product : out[i] + product;
        }
      }
    }
  }

  const MatmulTier& tier_;
  const ExpertsArgs& args_;
  Worker& worker_;
  int64_t rows_;
  Bodies bodies_;
  WorkerPlaces places_;
  Groups groups_;
  std::byte *inputs_, *hidden_inputs_;
  float *hidden_, *sums_, *sums_up_;
};

}  // namespace

void run_experts(const MatmulTier& tier, const ExpertsArgs& args, Worker& worker) {
  if (*args.rows > 0) Run(tier, args, worker).run();
}

KernelTable::Scratch experts_scratch(const MatmulTier& tier, const ExpertsArgs& args, int64_t capacity) {
  const Bodies bodies(tier, args);
  // Claims are longer with few rows.
  int64_t most = 0;
  for (int64_t rows : {kPrivateRows, kFewRows, capacity}) {
    most = std::max(most, WorkerPlaces(bodies, args, std::min(rows, capacity)).bytes);
  }
  return {static_cast<size_t>(most), static_cast<size_t>(SharedPlaces(bodies, args, capacity).bytes)};
}

}  // namespace rafter::kernels
