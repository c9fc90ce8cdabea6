// Stop strings in streamed text. Text that may be the start of a stop string is held back until it is
// decided.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::text {

class StopMatcher {
 public:
  // Error: an empty stop string, which would match anywhere.
  static base::Result<StopMatcher> create(const std::vector<std::string>& stops);

  struct Output {
    std::string text;            // what may be shown now
    std::optional<size_t> stop;  // which stop string was found; generation ends
  };

  // Searches held and new text together. The match that starts first wins, of those the longest; the text
  // before it is returned, it and all behind it are dropped. Without a match the longest suffix that is a
  // proper prefix of a stop string is held. After a match every further call returns nothing. Time: the bytes
  // of `text` times the number of stop strings.
  Output push(std::string_view text);

  // The end of the text: what was held, unchanged.
  std::string flush();

  bool stopped() const { return stopped_; }

 private:
  // Knuth, Morris and Pratt's matcher of one stop string.
  struct Pattern {
    std::string stop;
    std::vector<size_t>
        border;          // [n]: the longest proper prefix of stop[0, n] (n + 1 bytes) that is also its suffix
    size_t matched = 0;  // the longest prefix of `stop` that ends at the end of the text so far
    void advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace rafter::text
