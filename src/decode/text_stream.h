// Sampled ids to text that may be shown: the incremental detokeniser, then the stop matcher. Both hold back
// what is not decided yet and are flushed together at the end.
#pragma once

#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

namespace rafter::decode {

class TextStream {
 public:
  // Error: an empty stop string.
  static base::Result<TextStream> create(const text::Tokenizer& tokenizer,
                                         const std::vector<std::string>& stop);

  using Output = text::StopMatcher::Output;
  Output push(int32_t token) { return matcher_.push(decoder_.push(token)); }
  // The end. The last characters may still complete a stop string.
  Output flush();

 private:
  TextStream(text::StreamDecoder decoder, text::StopMatcher matcher)
      : decoder_(std::move(decoder)), matcher_(std::move(matcher)) {}

  text::StreamDecoder decoder_;
  text::StopMatcher matcher_;
};

}  // namespace rafter::decode
