#include "text/stream_decoder.h"

#include <span>
#include <utility>

#include "base/utf8.h"

namespace rafter::text {

std::string Utf8Stream::repair(std::string_view bytes) const {
  if (malformed_ == Malformed::per_subpart) return base::replace_malformed_utf8(bytes);
  std::string text;
  while (!bytes.empty()) {
    const base::Utf8Step step = base::decode_utf8(bytes);
    for (int i = 0; i < (step.valid ? 1 : step.length); ++i) base::append_utf8(text, step.code_point);
    bytes.remove_prefix(step.length);
  }
  return text;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined = std::exchange(pending_, {});
  joined += bytes;
  const size_t complete = joined.size() - base::incomplete_utf8_suffix(joined);
  pending_ = joined.substr(complete);
  return repair(std::string_view(joined).substr(0, complete));
}

std::string Utf8Stream::flush() { return repair(std::exchange(pending_, {})); }

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      stream_(tokenizer_.has_byte_tokens() ? Utf8Stream::Malformed::per_byte
                                           : Utf8Stream::Malformed::per_subpart),
      dropped_spaces_(tokenizer_.decoder().dropped_spaces()) {}

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  if (tokenizer_.decoder().streaming() == Decoder::Streaming::window) return push_window(id);
  if (dropped_spaces_ > 0 && tokenizer_.decoder().drops_in_first_only() &&
      !tokenizer_.token_bytes(id).empty()) {
    dropped_spaces_ = 0;
    return tokenizer_.decode(std::span(&id, 1), skip_special_);
  }
  return without_dropped_spaces(push_bytes(id));
}

std::string StreamDecoder::push_bytes(int32_t id) {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (!tokenizer_.has_byte_tokens() || tokenizer_.is_byte_token(id) || bytes.empty())
    return stream_.push(bytes);
  std::string text = stream_.flush();  // only byte tokens complete each other
  return text += bytes;
}

std::string StreamDecoder::without_dropped_spaces(std::string text) {
  if (dropped_spaces_ == 0 || text.empty()) return text;
  size_t spaces = 0;
  while (spaces < text.size() && spaces < dropped_spaces_ && text[spaces] == ' ') ++spaces;
  dropped_spaces_ = spaces < text.size() ? 0 : dropped_spaces_ - spaces;
  return text.substr(spaces);
}

// The texts of the window without and with the new id: what the second has more is what the id adds. An
// unfinished character, or a text that is not a continuation, waits for the next id. The window starts anew
// behind what was shown.
std::string StreamDecoder::push_window(int32_t id) {
  constexpr size_t kLongestWindow = 64;
  window_.push_back(id);
  const std::string text = tokenizer_.decode(window_, skip_special_);
  const bool is_ready =
      text.starts_with(window_text_) && text.size() > window_text_.size() && !text.ends_with("\uFFFD");
  if (!is_ready && window_.size() < kLongestWindow) return {};
  std::string added = text.starts_with(window_text_) ? text.substr(window_text_.size()) : std::string();
  window_.assign(1, id);
  window_text_ = tokenizer_.decode(window_, skip_special_);
  return added;
}

std::string StreamDecoder::flush() {
  dropped_spaces_ = tokenizer_.decoder().dropped_spaces();
  std::string rest = stream_.flush();
  if (!window_.empty()) {
    const std::string text = tokenizer_.decode(window_, skip_special_);
    if (text.starts_with(window_text_)) rest += text.substr(window_text_.size());
    window_.clear();
    window_text_.clear();
  }
  return rest;
}

}  // namespace rafter::text
