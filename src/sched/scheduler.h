// The one lane: any number of requests through one engine, as ragged rows of common steps. A single request
// is a batch of one.
//
//   Scheduler scheduler(engine, {tokenizer, end_tokens}, {.batch = 8, .prompt_cache_bytes = 1 << 30});
//   RAFTER_ASSIGN(const uint64_t id, scheduler.submit(request, {.on_token = print, .on_finish = report}));
//   while (scheduler.step()) {}
//
// A step computes one row of every stream and, beside them, prompt rows: as many as keep the streams' gaps
// within bounds, half of them of the oldest prompt and half of the shortest. Requests are let in first come,
// first served, when there is memory for them; prefixes that were kept give way before one waits. If streams
// outgrow the memory after all, the youngest goes back to the front of the queue and is computed again later:
// its tokens, as those of any request, do not depend on its company.
//
// A state machine without threads or clocks of its own: one caller drives it, listeners are called from
// within step() only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "decode/generation.h"
#include "sched/prefix_tree.h"
#include "sched/saved_prefixes.h"
#include "sched/step_budget.h"

namespace rafter::sched {

struct SchedulerOptions {
  int64_t batch = 64;                         // most requests whose rows share a step
  int64_t queue = int64_t{1} << 40;           // most requests that wait for one of these places
  int64_t prefill_chunk = 0;                  // most prompt rows in one step; 0: the engine's row capacity
  int64_t prompt_cache_bytes = 0;             // of prefixes that are kept after their requests; 0: none are
  std::shared_ptr<SavedPrefixes> saved = {};  // prefixes in files; none: they end with the process
  double stream_gap = 0.25;                   // seconds; see StepBudget
  std::function<double()> now = {};           // seconds; empty: the steady clock
};

struct SchedulerStats {
  int64_t active = 0, queued = 0;
  int64_t kept_prefixes = 0, kept_tokens = 0;  // tokens: shared ones counted once
  int64_t loaded_prefixes = 0;                 // from files
  int64_t steps = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, computed_prompt_tokens = 0, generated_tokens = 0;
  int64_t preemptions = 0;
  double prefill_seconds = 0, decode_seconds = 0;  // of steps, by their rows
};

class Scheduler {
 public:
  // `engine` must outlive it.
  Scheduler(decode::StepEngine& engine, decode::GenerationSetting setting, SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Errors before any work: see Generation::create; busy when the queue is full. The listener is called from
  // within step().
  base::Result<uint64_t> submit(decode::GenerationRequest request, decode::GenerationListener listener);
  // Ends it in the next step; ids that are not known are passed over.
  void cancel(uint64_t id);

  // One step of the engine. Returns whether requests are left. A step that fails ends the requests that had
  // rows in it, and no other.
  bool step();

  bool idle() const { return active_.empty() && waiting_.empty(); }
  const SchedulerStats& stats() const { return stats_; }
  const PrefixTree& prefixes() const { return tree_; }
  // What the kept prefixes hold; without requests, all that the engine holds.
  int64_t kept_bytes() const;
  // Whether kept prefixes are in no file yet that should be.
  bool has_unsaved_prefixes() const;
  // Saves one of them, the one that would stay longest; false if there is none. For when there is time: it
  // blocks for as long as the disk takes.
  bool save_prefix_blocking();
  // Releases every prefix that is kept.
  void drop_prefixes();

 private:
  struct Request {
    uint64_t id = 0;
    std::unique_ptr<decode::Generation> generation;
    PrefixTree::Handle leaf;  // while it is active
    bool is_cancelled = false;
    bool has_looked_in_files = false;
  };
  struct Share {  // of one request in the step
    decode::Generation* generation;
    int64_t rows;
    bool wants_logits, is_prompt;
  };
  struct Match {  // the best place to enter a prompt at
    PrefixTree::Handle leaf;
    int64_t length = 0;
  };

  void end_cancelled();
  enum class Admission { admitted, needs_memory, awaits_prefix };
  void admit();
  Admission try_admit(Request& request);
  bool awaits_prefix(const decode::Generation& generation, int64_t found) const;
  Match find_prefix(const decode::Generation& generation) const;
  bool load_prefix(Request& request, int64_t found);
  PrefixTree::Handle unsaved_prefix() const;
  bool has_memory_for(const decode::Generation& generation, const Match& match) const;
  bool take_sequence(Request& request, const Match& match);
  void plan_step();
  void add_prompt_rows(int64_t rows);
  void add_share(decode::Generation& generation, int64_t limit, bool is_prompt);
  int64_t rows_to_boundary(const decode::Generation& generation) const;
  base::Status run_step();
  void make_way(const base::Error& error);
  void preempt_youngest();
  void finish_step(double seconds);
  void fail_step(const base::Error& error);
  void settle_finished();
  void keep_or_release(Request& request);
  bool is_covered(const PrefixTree::Leaf& leaf);
  bool evict_prefix(PrefixTree::Handle spared);
  std::vector<int32_t> kept_sequences() const;
  void trim_prefixes();
  void release_leaf(PrefixTree::Handle leaf);
  void report_progress();

  decode::StepEngine& engine_;
  decode::GenerationSetting setting_;
  SchedulerOptions options_;
  int64_t capacity_;
  StepBudget budget_;
  PrefixTree tree_;
  std::deque<Request> waiting_;
  std::vector<Request> active_;  // in order of admission
  std::vector<engine::Row> rows_;
  std::vector<Share> shares_;
  decode::SamplerScratch scratch_;
  SchedulerStats stats_;
  uint64_t next_id_ = 1;
  int64_t clock_ = 0;  // finished requests: the age of prefixes
  size_t turn_ = 0;    // who decodes first when there are more requests than rows
};

// Runs one request to its end.
// Errors: those of submit, and what ended the request.
base::Result<decode::GenerationResult> generate_blocking(
    Scheduler& scheduler, decode::GenerationRequest request,
    std::function<void(const decode::TokenEvent&)> on_token = {});

}  // namespace rafter::sched
