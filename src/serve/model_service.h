// What the front process asks of the model it serves. The model runs in a worker process
// (serve/worker_*.h); the wire protocols and their tests know this interface only.
//
//   const uint64_t id = service.submit(request, {.on_token = write, .on_finish = close});
//   service.cancel(id);   // the client went away: its row is free within one step
//
// One thread drives a service: that of the event loop it was made with. Listeners are called on it, and never
// from within the call that gave them. Text is UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decode/answer_form.h"
#include "decode/request.h"

namespace rafter::serve {

struct CompletionRequest {
  std::vector<int32_t> prompt;
  // Prompt lengths at which later requests may branch off, ascending: the end of the system part, the last
  // user or tool boundary. States that cannot be cut back anywhere are retained there.
  std::vector<int64_t> boundaries;
  decode::SamplingParams sampling;
  // At most so many tokens; more than what fits ends with FinishReason::length. Absent: what fits.
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_end = false;
  std::vector<std::string> kept_markers;   // special tokens that come out as text (text/output_parser.h)
  std::optional<decode::AnswerForm> form;  // what the answer is held to; absent: nothing
  std::string cache_space;                 // prefixes are shared within one space only (an adapter stack)
};

struct CompletionProgress {
  int64_t queued_before = 0;  // requests in front of this one; 0: its rows are being computed
  int64_t prompt_done = 0;    // prompt tokens that are computed or were found in the cache
  int64_t prompt_total = 0;
};

struct CompletionListener {
  std::function<void(const CompletionProgress&)> on_progress;  // before the first token; may be empty
  std::function<void(const decode::TokenEvent&)> on_token;
  // Called exactly once, also when the worker died: then with FinishReason::error.
  std::function<void(const decode::GenerationResult&)> on_finish;
};

enum class ServiceState {
  loading,  // the first worker is opening the model
  ready,
  restarting,  // a worker died; another is coming
  failed,      // it died too often, or the model cannot be opened: nothing will come
};
const char* service_state_name(ServiceState state);  // "loading"

// What a worker says when its model is ready.
struct ModelFacts {
  int64_t context_limit = 0;  // positions that one sequence may have, by model, flags and memory
  int64_t vocabulary_size = 0;
  std::string executor;  // "cpu avx512, 2 threads"
  bool is_embedder = false;
  int64_t weight_bytes = 0;
  int64_t cache_bytes_limit = 0;
  int32_t batch = 1;  // most requests whose rows share a step
};

struct ServiceStats {
  int64_t active = 0, queued = 0;
  int64_t cache_bytes = 0;  // keys, values and states, of live requests and kept prefixes
  int64_t kept_bytes = 0;   // of kept prefixes alone, when there were last no requests
  int64_t cached_prefix_tokens = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;  // since start
  double prefill_seconds = 0, decode_seconds = 0;                      // of steps
  int64_t resident_bytes = 0;                                          // of the worker
  int64_t restarts = 0;
};

class ModelService {
 public:
  virtual ~ModelService() = default;

  virtual ServiceState state() const = 0;
  // Why it is restarting or failed; empty otherwise.
  virtual std::string state_reason() const = 0;
  // Known once it was ready.
  virtual const std::optional<ModelFacts>& facts() const = 0;
  // As of the worker's last report, at most a second old while it runs.
  virtual const ServiceStats& stats() const = 0;

  // Everything that is refused (a prompt that does not fit, a full queue, no worker) comes through on_finish.
  // Error codes: invalid_argument; out_of_memory (does not fit, the numbers are in the message); busy
  // (queue); unavailable (loading, restarting, failed, or the worker died).
  virtual uint64_t submit(CompletionRequest request, CompletionListener listener) = 0;
  // on_finish follows, with FinishReason::cancelled. Unknown and finished ids: nothing happens.
  virtual void cancel(uint64_t id) = 0;

  // The embedding of a text [width], normalised. Errors as of submit; unsupported.
  virtual void embed(std::vector<int32_t> tokens,
                     std::function<void(base::Result<std::vector<float>>)> on_finish) = 0;
};

}  // namespace rafter::serve
