// A ModelService without a model, driven by a script: answers, delays and failures as a test wants them. It
// keeps the contract of serve/model_service.h: listeners are called on the loop, never within the call that
// gave them, on_finish exactly once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/text_stream.h"
#include "serve/event_loop.h"
#include "serve/model_service.h"
#include "text/tokenizer.h"

namespace rafter::testing {

// How one request goes.
struct FakeAnswer {
  std::string text = {};                         // generated, as the tokenizer cuts it
  std::chrono::milliseconds before_first{0};     // after the prompt's progress was told
  std::chrono::milliseconds between{0};          // tokens
  int64_t queued_before = 0;                     // told first
  int64_t cached = 0;                            // prompt tokens "found"
  std::optional<base::Error> refused = {};       // instead of anything
  std::optional<base::Error> fails_at_end = {};  // after the text
  bool silent = false;                           // tells no progress
  bool endless = false;                          // the text again and again
};

class FakeService : public serve::ModelService {
 public:
  FakeService(serve::EventLoop& loop, text::Tokenizer tokenizer);
  ~FakeService() override;

  // What a request gets. Default: "Hello there." Called on the loop.
  std::function<FakeAnswer(const serve::CompletionRequest&)> script;

  serve::ServiceState now = serve::ServiceState::ready;
  std::string down_reason;
  std::optional<serve::ModelFacts> known_facts;
  serve::ServiceStats figures;
  std::vector<serve::CompletionRequest> requests;  // all, in order
  int cancels = 0;                                 // that hit a live request

  serve::ServiceState state() const override { return now; }
  std::string state_reason() const override { return down_reason; }
  const std::optional<serve::ModelFacts>& facts() const override { return known_facts; }
  const serve::ServiceStats& stats() const override { return figures; }
  uint64_t submit(serve::CompletionRequest request, serve::CompletionListener listener) override;
  void cancel(uint64_t id) override;
  void embed(std::vector<int32_t> tokens,
             std::function<void(base::Result<std::vector<float>>)> on_finish) override;

  // A request's prompt as text.
  std::string text_of(const serve::CompletionRequest& request) const {
    return tokenizer_.decode(request.prompt, /*skip_special=*/false);
  }
  int64_t live() const { return static_cast<int64_t>(rows_.size()); }

 private:
  struct Row;
  void start(uint64_t id);
  void step(uint64_t id);
  void finish(uint64_t id, decode::FinishReason reason, std::optional<base::Error> error = {});

  serve::EventLoop& loop_;
  text::Tokenizer tokenizer_;
  std::map<uint64_t, std::unique_ptr<Row>> rows_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  uint64_t next_id_ = 1;
};

}  // namespace rafter::testing
