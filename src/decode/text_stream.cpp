#include "decode/text_stream.h"

namespace rafter::decode {

base::Result<TextStream> TextStream::create(const text::Tokenizer& tokenizer,
                                            const std::vector<std::string>& stop) {
  RAFTER_ASSIGN(text::StopMatcher matcher, text::StopMatcher::create(stop));
  return TextStream(text::StreamDecoder(tokenizer, /*skip_special=*/true), std::move(matcher));
}

TextStream::Output TextStream::flush() {
  Output output = matcher_.push(decoder_.flush());
  output.text += matcher_.flush();
  return output;
}

}  // namespace rafter::decode
