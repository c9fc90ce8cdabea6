// What every handler works with: the served model's text side, the service behind it, and the server's own
// state. Used on the event loop's thread, except for what is said to be safe elsewhere.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/model_text.h"
#include "serve/event_loop.h"
#include "serve/http.h"
#include "serve/model_service.h"
#include "serve/prompt_builder.h"
#include "serve/proto/api_error.h"
#include "serve/proto/openai_models.h"
#include "serve/proto/reasoning_store.h"
#include "serve/proto/reply.h"
#include "serve/proto/response_store.h"

namespace rafter::serve {

struct FrontOptions {
  std::string model_id;                   // as clients see it
  std::vector<std::string> aliases;       // also served under these
  std::vector<std::string> other_models;  // registered, not served: a request for one is 404
  std::string family;                     // "qwen3", for those who ask; may be empty
  std::string quantization;               // "mlx 4 bit"; may be empty
  int64_t trained_context = 0;
  PromptOptions prompt;
  SamplingFields sampling;                  // the server's own defaults, over the model's
  std::optional<int64_t> max_tokens;        // of requests that do not say
  std::optional<int64_t> reasoning_budget;  // tokens; of requests that do not say
  std::string tool_format = "auto", reasoning_format = "auto";
  // Whether a context fits and how fast it would be, as JSON text (0: the served context). Called on helper
  // threads; empty: not offered.
  std::function<base::Result<std::string>(int64_t context)> fit;
};

// Counts for /metrics.
struct FrontCounts {
  std::map<int, int64_t> responses;  // by status
  int64_t requests = 0, cancelled = 0, open_streams = 0;
};

class Front {
 public:
  // Error (invalid_argument): an unknown tool or reasoning format.
  static base::Result<std::unique_ptr<Front>> create(EventLoop& loop, ModelService& service,
                                                     decode::ModelText text, FrontOptions options);

  EventLoop& loop() const { return loop_; }
  ModelService& service() const { return service_; }
  const FrontOptions& options() const { return options_; }
  const text::OutputFormat& format() const { return format_; }
  // Safe on any thread.
  const decode::ModelText& text() const { return text_; }
  const PromptBuilder& prompts() const { return prompts_; }

  FrontCounts& counts() { return counts_; }
  ResponseStore& responses() { return responses_; }
  ReasoningStore& reasoning() const { return reasoning_; }  // safe on any thread
  // Whether the template writes the reasoning of earlier answers.
  bool shows_reasoning() const { return shows_reasoning_; }
  int64_t started_at() const { return started_at_; }  // seconds since 1970

  // Answers under way, each with what ends it early with an error to its client. On the loop.
  uint64_t add_answer(std::function<void()> stop);
  void remove_answer(uint64_t id);
  void stop_answers();

  // Whether a request for this model is served. Error (not_found): it is another one that is registered.
  base::Status check_model(const std::string& name) const;
  // Usable positions; 0 while that is not known.
  int64_t context() const;

 private:
  Front(EventLoop& loop, ModelService& service, decode::ModelText text, text::OutputFormat format,
        FrontOptions options);

  EventLoop& loop_;
  ModelService& service_;
  decode::ModelText text_;
  text::OutputFormat format_;
  FrontOptions options_;
  PromptBuilder prompts_;
  FrontCounts counts_;
  ResponseStore responses_;
  mutable ReasoningStore reasoning_;  // has a lock of its own
  bool shows_reasoning_;
  int64_t started_at_;
  std::map<uint64_t, std::function<void()>> answers_;
  uint64_t next_answer_ = 1;
};

// The served model as /v1/models describes it.
ModelCard model_card(const Front& front);

int64_t unix_seconds();
std::string random_hex(size_t digits);

// A JSON answer, and an error in OpenAI's shape.
void respond_json(HttpExchange& exchange, const Json& json, int status = 200);
void respond_error(HttpExchange& exchange, const ApiError& error);
// What is said when the helper threads have too much to read already.
base::Error too_many_to_read();
HttpResponse error_response(const ApiError& error, const Json& body);

}  // namespace rafter::serve
