// The evaluation database: what was measured, when, on which machine, with which commit, and what had been
// predicted. Rows are never changed; `archive` moves the file aside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::store {

// One figure of a run: a prompt, or decode steps.
struct EvaluationFigure {
  std::string metric;  // "prefill", "decode"
  int64_t tokens = 0;  // of the prompt, or positions held
  int rows = 1;
  double seconds = 0;  // of the prompt, or of one step
  double tps = 0;
  double gbps = 0;          // 0 where bytes are not the point
  double roofline_pct = 0;  // of the raw read
  double compute_pct = 0;   // of the peak
  double spread_pct = 0;
  double predicted_tps = 0;  // 0: nothing was predicted
};

struct EvaluationRun {
  int64_t id = 0;          // filled in when added
  int64_t started_at = 0;  // Unix seconds
  std::string kind;        // "bench", "roofline"
  std::string model, model_path;
  std::string version, commit;
  std::string machine;  // processor, cores and instruction set, as machine_name() makes it
  std::string device;   // the executor
  int threads = 0;
  std::string format, kv;
  double raw_read_gbps = 0, peak_tops = 0;
  double load_ms = 0, first_token_ms = 0;
  int64_t peak_rss_bytes = 0, predicted_bytes = 0;
  std::string logits_hash;
  bool busy = false;
  double others_pct = 0, load_before = 0;
  std::string note;
  std::vector<EvaluationFigure> figures;
};

// Both roofs of a machine as last measured.
struct MachineProfile {
  std::string machine;
  int threads = 0;
  int64_t measured_at = 0;
  double raw_read_gbps = 0, peak_tops = 0;
  bool busy = false;
};

struct EvaluationFilter {
  std::string model;    // part of its name; empty: all
  std::string commit;   // its beginning
  std::string machine;  // exactly
  std::string kind;
  int64_t limit = 0;  // the newest ones; 0: all
};

class Evaluations {
 public:
  static base::Result<Evaluations> open(const std::string& path);
  // $XDG_CACHE_HOME/rafter/evals.sqlite
  static base::Result<Evaluations> open_default();
  static base::Result<std::string> default_path();

  Evaluations(Evaluations&&) noexcept;
  Evaluations& operator=(Evaluations&&) noexcept;
  ~Evaluations();

  // Returns the run's id.
  base::Result<int64_t> add(const EvaluationRun& run);
  // Newest first.
  base::Result<std::vector<EvaluationRun>> list(const EvaluationFilter& filter) const;
  base::Result<EvaluationRun> get(int64_t id) const;  // error: not_found

  base::Status put_profile(const MachineProfile& profile);
  // Absent if this machine was never measured with so many threads.
  base::Result<std::optional<MachineProfile>> profile_of(const std::string& machine, int threads) const;

 private:
  struct Impl;
  explicit Evaluations(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rafter::store
