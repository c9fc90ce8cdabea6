// Sampled ids to text that may be shown: the incremental detokeniser, then the stop matcher. Both hold back
// what is not decided yet and are flushed together at the end.
#pragma once

#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

namespace rafter::decode {

class TextStream {
 public:
  // Special tokens have no text, but for those that `kept_markers` spells. Error: an empty stop string.
  static base::Result<TextStream> create(const text::Tokenizer& tokenizer,
                                         const std::vector<std::string>& stop,
                                         const std::vector<std::string>& kept_markers = {});

  using Output = text::StopMatcher::Output;
  Output push(int32_t token);
  // The end. The last characters may still complete a stop string.
  Output flush();

 private:
  TextStream(const text::Tokenizer& tokenizer, text::StopMatcher matcher)
      : tokenizer_(tokenizer), decoder_(tokenizer, /*skip_special=*/false), matcher_(std::move(matcher)) {}

  text::Tokenizer tokenizer_;
  std::vector<int32_t> kept_;  // ids of the markers
  text::StreamDecoder decoder_;
  text::StopMatcher matcher_;
};

}  // namespace rafter::decode
