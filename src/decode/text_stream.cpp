#include "decode/text_stream.h"

#include <algorithm>

namespace rafter::decode {

base::Result<TextStream> TextStream::create(const text::Tokenizer& tokenizer,
                                            const std::vector<std::string>& stop,
                                            const std::vector<std::string>& kept_markers) {
  RAFTER_ASSIGN(text::StopMatcher matcher, text::StopMatcher::create(stop));
  TextStream stream(tokenizer, std::move(matcher));
  for (const std::string& marker : kept_markers) {  // one that is no token is ordinary text anyway
    if (const auto id = tokenizer.token_id(marker)) stream.kept_.push_back(*id);
  }
  return stream;
}

TextStream::Output TextStream::push(int32_t token) {
  const bool is_hidden =
      tokenizer_.is_special(token) && std::find(kept_.begin(), kept_.end(), token) == kept_.end();
  return matcher_.push(is_hidden ? std::string() : decoder_.push(token));
}

TextStream::Output TextStream::flush() {
  Output output = matcher_.push(decoder_.flush());
  output.text += matcher_.flush();
  return output;
}

}  // namespace rafter::decode
