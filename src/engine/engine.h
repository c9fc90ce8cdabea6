// An engine: one model bound to one checkpoint on one back end, and the step that runs ragged rows through
// it.
//
//   RAFTER_ASSIGN(auto opened, format::Checkpoint::open(path));
//   auto checkpoint = std::make_shared<const format::Checkpoint>(std::move(opened));
//   RAFTER_ASSIGN(auto engine, Engine::open(checkpoint, {}));
//   RAFTER_ASSIGN(int32_t sequence, engine->create_sequence());
//   RAFTER_TRY(engine->step(rows));  // prompt rows and decode rows of any sequences, mixed
//   std::span<const float> logits = engine->logits(0);
//
// Not thread-safe: one caller drives an engine. Two engines in one process are independent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/sequence_file.h"
#include "engine/kv_quantization.h"
#include "engine/step_profile.h"
#include "format/checkpoint.h"
#include "model/model.h"
#include "plan/plan.h"

namespace rafter::engine {

enum class ExecutorKind { cpu, reference, cuda };

struct EngineOptions {
  ExecutorKind executor = ExecutorKind::cpu;
  int gpu = 0;           // which one, for cuda
  bool capture = true;   // cuda: the step as one graph
  int threads = 0;       // 0: every core this process may use
  bool precise = false;  // fp32-accurate products and an fp32 cache
  KvQuantization kv_quantization = KvQuantization::automatic;
  bool fuse = true;           // false: run the plan as emitted
  int64_t context_limit = 0;  // positions per sequence; 0: the model's own maximum
  int64_t cache_bytes = 0;    // cap of the block store; 0: a share of the machine's memory
  int max_sequences = 64;
  int row_capacity = 512;         // most rows in one step; rounded up to a power of two
  bool head = true;               // false: steps end at the final norm and leave no logits
  bool populate = true;           // false: weights are left alone until steps read them
  std::vector<std::string> taps;  // values to keep readable after each step: "layer.3.hidden"
};

// One token of one sequence.
struct Row {
  int32_t token = 0;
  int32_t position = 0;
  int32_t sequence = 0;
  bool wants_logits = false;
  int32_t visible_from = 0;  // sees positions visible_from … position
};

// A sequence that is to have `positions` positions, the first `held` of them those of `sequence` (which is
// it, or which it will be forked from); −1 and none for a new one.
struct Growth {
  int32_t sequence = -1;
  int64_t held = 0;
  int64_t positions = 0;
};

class Engine {
 public:
  // Errors: the checkpoint's (missing tensor, wrong shape, unsupported architecture or format),
  // out_of_memory.
  static base::Result<std::unique_ptr<Engine>> open(std::shared_ptr<const format::Checkpoint> checkpoint,
                                                    EngineOptions options);
  ~Engine();

  const model::Model& model() const;
  const EngineOptions& options() const;  // with every default filled in
  int64_t context_limit() const;
  int64_t vocabulary_size() const;
  std::string executor_name() const;  // "cpu avx512, 2 threads"
  std::string cache_format() const;   // of keys and values: "bf16", "8 bit"

  // --- sequences: each is a block table that grows as rows are appended
  base::Result<int32_t> create_sequence();
  void release_sequence(int32_t sequence);
  // Positions 0 … length−1 hold keys and values.
  int64_t length(int32_t sequence) const;
  // The longest prefix of at most `length` positions that truncate() and fork_sequence() can go back to:
  // `length` itself where full attention is all that a model has. Sliding layers go back to positions whose
  // window is still held (those of the last step at least), recurrent layers to the rows that are still
  // pending (the last 16 of the last step); both to snapshots, and to 0.
  int64_t reentry_position(int32_t sequence, int64_t length) const;
  // Whether every position is a re-entry position for ever: the model has full attention only.
  bool reenters_anywhere() const;
  // Makes the sequence's length a re-entry position that lasts, within a budget of bytes (the least recently
  // used snapshots give way). False if there is no room; true, and nothing to do, with full attention only.
  bool take_snapshot(int32_t sequence);
  // Forgets positions ≥ length: their blocks are given back, the next row may be appended at `length`, which
  // must be a re-entry position.
  void truncate(int32_t sequence, int64_t length);
  // A new sequence that shares the first `length` positions (whole blocks are shared, the tail is copied);
  // `length` must be a re-entry position.
  base::Result<int32_t> fork_sequence(int32_t sequence, int64_t length);

  // --- sequences in files, for other processes over the same checkpoint, options and kind of processor
  // Writes what a sequence holds of these tokens, all of its positions, its snapshots included; the file is
  // there when it is complete. `space` is kept beside them. Blocks. Errors: io, unsupported (on a GPU).
  base::Status save_sequence_blocking(int32_t sequence, std::span<const int32_t> tokens,
                                      const std::string& space, const std::string& path) const;
  // A new sequence that holds what the file does. All or nothing. Blocks. Errors: those of
  // cache/sequence_file.h; invalid_argument (another model or mode); out_of_memory.
  struct LoadedSequence {
    int32_t sequence = -1;
    cache::SequenceHead head;
  };
  base::Result<LoadedSequence> load_sequence_blocking(const std::string& path);
  // What this engine's files are marked with. The first call reads a little of every tensor.
  cache::SequenceOrigin sequence_origin() const;

  // Error with the numbers in the message unless `positions` fit into the context limit and the block store.
  base::Status check_fits(int64_t positions) const;

  // Whether step() finds the blocks for these rows without any snapshot giving way.
  bool has_room(std::span<const Row> rows) const;
  // Whether these sequences fit together once all others were released.
  bool can_hold(std::span<const Growth> sequences) const;
  // Bytes of cache that these sequences hold, what they share counted once; without snapshots of windows.
  int64_t bytes_held(std::span<const int32_t> sequences) const;

  // Runs up to row_capacity rows. The rows of one sequence must be consecutive positions from its length on,
  // in order. Appends their keys and values; leaves the logits of the rows that want them. Errors:
  // invalid_argument (token, position or sequence out of range), out_of_memory (context or store full); the
  // sequences are unchanged then.
  base::Status step(std::span<const Row> rows);

  // Greedy decoding: `rows` holds one row for each of some sequences, the tokens that come next; each step
  // chooses every sequence's next token by its largest logit (the lowest token among equals) and gives them
  // to `accept`, in the order of the rows. Ends after `steps` steps or when accept returns false; the
  // sequences then hold what they were given: `rows`, and all accepted tokens but the last step's. On a GPU
  // the tokens stay there and the next step runs while the host looks at them.
  base::Status decode_greedy(std::span<const Row> rows, int64_t steps,
                             const std::function<bool(std::span<const int32_t>)>& accept);

  // Logits [V] of the i-th row of the last step that wanted them; valid until the next step.
  std::span<const float> logits(int i) const;

  // What the last step took.
  StepTimes last_step_times() const;
  // Steps from here on write where their time went into `profile`, until this is called with null.
  void set_profile(StepProfile* profile);

  // A tapped value [rows of the last step, width] ("final_norm": only the rows that wanted logits); the
  // options must name it.
  std::span<const float> tap(const std::string& name) const;

  // The plan of the bucket that holds `rows`, as bound; owned by the engine.
  base::Result<const plan::Plan*> plan_for(int rows);

  // Bytes of cache in use, and the cap.
  int64_t cache_bytes_in_use() const;
  int64_t cache_bytes_limit() const;
  // What one sequence of `positions` takes of it at most: keys, values and states.
  int64_t cache_bytes_for(int64_t positions) const;
  // Of activations and kernels' scratch, of the plans bound so far; memory that steps touch as they need it.
  int64_t scratch_bytes() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rafter::engine
