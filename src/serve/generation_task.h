// One request for text, from its JSON to the last byte of its answer, for every protocol: the prompt is built
// on a helper thread, the service generates, the collector makes events of tokens, the protocol's Reply makes
// bytes of events. A client that goes away cancels it.
#pragma once

#include <functional>
#include <memory>

#include "serve/front.h"
#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// `on_answer` runs when the answer is complete, before its end is sent; may be empty.
void start_generation(Front& front, Ask ask, std::unique_ptr<Reply> reply,
                      std::shared_ptr<HttpExchange> exchange,
                      std::function<void(const Answer&)> on_answer = {});

// The prompt alone, built aside; `use` runs on the loop unless the client has left.
void build_prompt_aside(Front& front, Ask ask, std::shared_ptr<HttpExchange> exchange,
                        std::function<void(HttpExchange&, base::Result<BuiltPrompt>)> use);

// What the request, the server's flags and the model say, in this order.
decode::SamplingParams sampling_params(const SamplingFields& request, const SamplingFields& server,
                                       const decode::ModelText& text, bool thinking_off);

}  // namespace rafter::serve
