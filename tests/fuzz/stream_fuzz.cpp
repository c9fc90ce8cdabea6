// Any bytes as streamed text: UTF-8 that comes in pieces is what it is as a whole, and stop strings are found
// where a search of the whole text finds them.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/fuzz/seeds.h"
#include "tests/support/naive_stop.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter;
  // Stop strings stand in front, each behind its length; the text follows a zero.
  std::vector<std::string> stops;
  size_t at = 0;
  while (at < size && data[at] != 0 && stops.size() < 6) {
    const size_t length = std::min<size_t>(data[at] % 16 + 1, size - at - 1);
    if (length == 0) break;
    stops.emplace_back(reinterpret_cast<const char*>(data) + at + 1, length);
    at += 1 + length;
  }
  if (at + 2 > size) return 0;
  const uint8_t cut = data[at + 1];
  std::string_view rest(reinterpret_cast<const char*>(data) + at + 2, size - at - 2);
  const std::string expected = base::replace_malformed_utf8(rest);
  RAFTER_CHECK(base::is_valid_utf8(rest) == (expected == rest));

  auto matcher = text::StopMatcher::create(stops);
  RAFTER_CHECK(matcher.ok());
  text::NaiveStop naive{stops};
  text::Utf8Stream utf8;
  std::string joined;
  for (uint32_t seed = cut; !rest.empty(); seed = seed * 1664525 + 1013904223) {
    const size_t length = std::min<size_t>(rest.size(), 1 + (seed >> 16) % 7);
    const std::string text = utf8.push(rest.substr(0, length));
    rest.remove_prefix(length);
    joined += text;
    const text::StopMatcher::Output output = matcher->push(text);
    RAFTER_CHECK(output.text == naive.push(text));
    RAFTER_CHECK(matcher->stopped() == naive.stop.has_value());
    if (output.stop) RAFTER_CHECK(stops[*output.stop] == stops[*naive.stop]);
  }
  joined += utf8.flush();
  RAFTER_CHECK(joined == expected);
  RAFTER_CHECK(matcher->flush() == naive.held);
  return 0;
}

// A length in octal, less one, in front of each stop string; a zero; a byte that chooses the cuts; text.
std::vector<std::string> fuzz_seeds() {
  using std::string_literals::operator""s;
  return {"\003STOP\001\n\n\000\005Hello STOP and \n\n\n"s, "\000\011h\u00e9\u20ac\U0001F600\377"s,
          "\002aab\001ab\000\007aaabaabab"s, "\002\u20ac\000\001x\342\202\u20ac"s};
}
