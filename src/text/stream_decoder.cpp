#include "text/stream_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace rafter::text {

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined = std::exchange(pending_, {});
  joined += bytes;
  const size_t complete = joined.size() - base::incomplete_utf8_suffix(joined);
  pending_ = joined.substr(complete);
  return base::replace_malformed_utf8(std::string_view(joined).substr(0, complete));
}

std::string Utf8Stream::flush() { return base::replace_malformed_utf8(std::exchange(pending_, {})); }

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  return stream_.push(tokenizer_.token_bytes(id));
}

}  // namespace rafter::text
