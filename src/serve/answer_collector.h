// From generated tokens to what a protocol writes: text through the output parser, then stop strings, which
// are looked for in the content only: reasoning and the markup of calls may hold them.
//
// Joined, the streamed events are the whole answer, however the text was cut.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decode/request.h"
#include "serve/proto/reply.h"
#include "text/output_parser.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace rafter::serve {

struct AnswerPlan {
  std::optional<text::OutputFormat> format;  // absent: text is content as it is
  text::OutputParserOptions parser;
  std::vector<std::string> stop;  // looked for here; none if the model's side does
  bool parallel_calls = true;
};

class AnswerCollector {
 public:
  // Error (invalid_argument): an empty stop string.
  static base::Result<AnswerCollector> create(AnswerPlan plan, const text::Tokenizer& tokenizer);

  // What became known. Once is_complete(), nothing comes any more and generation may be cancelled.
  std::vector<text::OutputEvent> push(const decode::TokenEvent& event);
  std::vector<text::OutputEvent> finish();
  bool is_complete() const { return complete_; }

  // Tokens with logprobs since the last call.
  std::span<const TokenRecord> take_records();

  // All of it, at the end. `result` is not an error.
  Answer answer(const decode::GenerationResult& result) const;

 private:
  AnswerCollector(AnswerPlan plan, text::StopMatcher matcher, const text::Tokenizer& tokenizer);

  std::vector<text::OutputEvent> filter(std::vector<text::OutputEvent> events);
  void filter_content(std::string_view text, std::vector<text::OutputEvent>& out);
  void release_held(std::vector<text::OutputEvent>& out);
  void collect(const std::vector<text::OutputEvent>& events);

  AnswerPlan plan_;
  std::optional<text::OutputParser> parser_;
  text::StopMatcher fresh_matcher_, matcher_;
  text::Tokenizer tokenizer_;
  Answer answer_;
  std::vector<int32_t> ids_;
  size_t records_taken_ = 0;
  int64_t reasoning_tokens_ = 0;
  bool complete_ = false, is_calling_ = false;
};

}  // namespace rafter::serve
