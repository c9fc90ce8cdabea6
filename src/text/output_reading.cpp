#include "text/output_reading.h"

#include "base/check.h"

namespace rafter::text::output {

void Source::start(const Reading& root) {
  root.handle().promise().source = this;
  active_ = {root.handle()};
  run();
}

void Source::push(std::string_view bytes) {
  bytes_ = bytes;
  run();
}

void Source::finish() {
  ended_ = true;
  run();
}

bool Source::is_ready(Want want) {
  if (want == Want::visible) {
    while (!bytes_.empty() && is_space(front())) take();
  }
  return !bytes_.empty() || ended_;
}

int Source::take() {
  const int byte = front();
  if (byte == kEnd) return byte;
  if (recording_) recorded_ += static_cast<char>(byte);
  bytes_.remove_prefix(1);
  return byte;
}

std::string_view Source::take_until(const bool (&stop)[256]) {
  size_t count = 0;
  while (count < bytes_.size() && !stop[static_cast<unsigned char>(bytes_[count])]) ++count;
  const std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return taken;
}

void Source::run() {
  while (!active_.empty()) {
    if (want_ != Want::nothing && !is_ready(want_)) return;
    want_ = Want::nothing;
    const Reading::Handle reading = active_.back();
    reading.resume();
    if (!reading.done()) continue;
    active_.pop_back();
    if (active_.empty() && reading.promise().failure) std::rethrow_exception(reading.promise().failure);
  }
}

Reading expect(Source& in, std::string_view text) {
  for (const char expected : text) {
    const int c = co_await in.peek();
    if (c != static_cast<unsigned char>(expected)) throw Malformed{};
    co_await in.next();
  }
}

Reading expect_visible(Source& in, std::string_view text) {
  co_await in.peek_visible();
  co_await expect(in, text);
}

Reading take_word(Source& in, std::string_view ends, size_t most, std::string& word) {
  word.clear();
  for (;;) {
    const int c = co_await in.peek();
    if (c == Source::kEnd) throw Malformed{};
    if (ends.find(static_cast<char>(c)) != std::string_view::npos) co_return;
    if (word.size() == most) throw Malformed{};
    word += static_cast<char>(c);
    co_await in.next();
  }
}

}  // namespace rafter::text::output
