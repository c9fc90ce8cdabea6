// How an answer is written: the protocol-neutral facts of an answer, and what each protocol makes of them.
//
// Streamed, a protocol is called: begin, then keep_alive and piece as they come, then end or failure. Whole:
// `whole` alone. Refused before anything was sent: `refusal`. Each returns the bytes to send; none keeps
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/proto/api_error.h"
#include "text/output_parser.h"

namespace rafter::serve {

struct TokenChoice {
  int32_t id = 0;
  std::string bytes = {};  // what it adds to the text
  float logprob = 0;
};

// A generated token: what was chosen, and the best candidates if they were asked for.
struct TokenRecord {
  TokenChoice chosen;
  std::vector<TokenChoice> best;
};

// What became known at once: the text's events, and the tokens that no earlier piece had.
struct Piece {
  std::span<const text::OutputEvent> events;
  std::span<const TokenRecord> tokens;  // empty unless logprobs were asked for
};

struct AnswerCall {
  std::string id, name, arguments;
};

enum class Ending { stop, length, tool_calls };

struct Usage {
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;  // tokens
};

struct Timings {
  double prompt_seconds = 0, predicted_seconds = 0;
  double prompt_per_second = 0, predicted_per_second = 0;
};

struct Answer {
  std::string reasoning, content;
  std::vector<AnswerCall> calls;
  std::vector<TokenRecord> tokens;  // with logprobs; empty unless asked for
  std::vector<int32_t> ids;         // all generated, the end token included
  Ending ending = Ending::stop;
  std::optional<std::string> stop_string;
  Usage usage;
  Timings timings;
  uint64_t seed = 0;
};

// What is known before the prompt is computed.
struct ReplyStart {
  std::string id;       // random hex, 32 digits
  int64_t created = 0;  // seconds since 1970
  std::string model;    // the served model's id
  int64_t prompt_tokens = 0;
};

class Reply {
 public:
  virtual ~Reply() = default;

  virtual const char* stream_type() const { return "text/event-stream"; }
  virtual void start(ReplyStart start) { start_ = std::move(start); }

  virtual std::string begin() = 0;
  // While nothing else is to be said. `note`: "queued 2", "keepalive 512/2048".
  virtual std::string keep_alive(const std::string& note) { return ": " + note + "\n\n"; }
  virtual std::string piece(const Piece& piece) = 0;
  virtual std::string end(const Answer& answer) = 0;
  virtual std::string failure(const ApiError& error) = 0;

  virtual Json whole(const Answer& answer) = 0;
  virtual Json refusal(const ApiError& error) { return openai_error(error); }

 protected:
  const ReplyStart& facts() const { return start_; }

 private:
  ReplyStart start_;
};

std::string sse_data(const Json& json);                      // "data: {…}\n\n"
std::string sse_event(const char* event, const Json& json);  // "event: …\ndata: {…}\n\n"

const char* ending_name(Ending ending);  // "tool_calls"
// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", …}
Json openai_usage(const Usage& usage);
// llama.cpp's figures: {"prompt_n", "prompt_ms", …}
Json timings_json(const Usage& usage, const Timings& timings);
// {"content": [{"id", "token", "bytes", "logprob", "top_logprobs"}…]}
Json logprobs_json(std::span<const TokenRecord> tokens);

}  // namespace rafter::serve
