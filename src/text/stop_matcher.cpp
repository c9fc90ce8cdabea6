#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace rafter::text {
namespace {

std::vector<size_t> borders_of(std::string_view stop) {
  std::vector<size_t> border(stop.size(), 0);
  for (size_t i = 1, length = 0; i < stop.size(); ++i) {
    while (length > 0 && stop[i] != stop[length]) length = border[length - 1];
    if (stop[i] == stop[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

base::Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stops) {
  StopMatcher matcher;
  for (const std::string& stop : stops) {
    if (stop.empty())
      return base::Error{base::ErrorCode::invalid_argument, "a stop string is empty", "stop", ""};
    matcher.patterns_.push_back({stop, borders_of(stop), 0});
  }
  return matcher;
}

// Precondition: not matched completely.
void StopMatcher::Pattern::advance(char byte) {
  while (matched > 0 && stop[matched] != byte) matched = border[matched - 1];
  if (stop[matched] == byte) ++matched;
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  std::string joined = std::exchange(held_, {});
  const size_t new_text = joined.size();
  joined += text;
  Output output;
  size_t match_start = joined.size();
  size_t held = 0;
  for (size_t which = 0; which < patterns_.size(); ++which) {
    // A pattern's own first match is its earliest one, so the search for it ends there.
    Pattern& pattern = patterns_[which];
    size_t end = new_text;
    while (end < joined.size() && pattern.matched < pattern.stop.size()) pattern.advance(joined[end++]);
    held = std::max(held, pattern.matched);
    if (pattern.matched < pattern.stop.size()) continue;
    const size_t start = end - pattern.stop.size();
    const bool is_better =
        !output.stop || start < match_start ||
        (start == match_start && pattern.stop.size() > patterns_[*output.stop].stop.size());
    if (is_better) {
      match_start = start;
      output.stop = which;
    }
  }
  stopped_ = output.stop.has_value();
  const size_t shown = stopped_ ? match_start : joined.size() - held;
  if (!stopped_) held_ = joined.substr(shown);
  joined.resize(shown);
  output.text = std::move(joined);
  return output;
}

std::string StopMatcher::flush() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace rafter::text
