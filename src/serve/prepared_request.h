// The first half of a request for text, on a helper thread: from the body's bytes to what the model is asked
// and what its tokens become. Everything whose time grows with the body is done, and freed, here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/answer_collector.h"
#include "serve/front.h"
#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// What a body asks for, and who writes the answer.
struct Asked {
  Ask ask;
  std::unique_ptr<Reply> reply;
  std::function<void(const Answer&)> on_answer = {};  // on the loop, before the answer's end is sent
  std::optional<HttpResponse> at_once = {};           // instead of asking the model
};

// How a route reads its requests.
struct AskReader {
  std::function<base::Result<Asked>(const Json& body)> read;  // on a helper thread
  Json (*error_body)(const ApiError& error);                  // of what is refused before there is a Reply
  std::string client = {};                                    // Ask::client
};

struct PreparedRequest {
  CompletionRequest request;  // `sampling` is not validated yet: the vocabulary is the service's to know
  std::optional<AnswerCollector> collector;
  std::unique_ptr<Reply> reply;
  std::function<void(const Answer&)> on_answer;
  bool stream = false;
  std::optional<HttpResponse> at_once;  // then the rest is empty
};

// Safe on any thread. `context`: usable positions, 0 if they are not known: a longer prompt goes no further,
// as megabytes of tokens would for the service to refuse them. `is_gone` is asked between the stages: the
// rest of the work is for nobody then (an error that nobody sees). Errors: what the reader, the prompt and
// the format refuse.
base::Result<PreparedRequest> prepare_request(const Front& front, const AskReader& reader, std::string body,
                                              int64_t context, const std::function<bool()>& is_gone);

// The prompt alone, with the reasoning that the client dropped. Safe on any thread.
base::Result<BuiltPrompt> build_prompt(const Front& front, Ask& ask);

// What the request, the server's flags and the model say, in this order.
decode::SamplingParams sampling_params(const SamplingFields& request, const SamplingFields& server,
                                       const decode::ModelText& text, bool thinking_off);

}  // namespace rafter::serve
