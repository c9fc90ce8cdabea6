// Stop strings as their rules say it, by searching everything again for each new text.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rafter::text {

struct NaiveStop {
  std::vector<std::string> stops;
  bool holds = true;  // off: a planted fault
  std::string held = {};
  std::optional<size_t> stop = std::nullopt;

  std::string push(std::string_view text) {
    if (stop) return "";
    held += text;
    size_t start = std::string::npos;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t at = held.find(stops[i]);
      if (at == std::string::npos) continue;
      if (!stop || at < start || (at == start && stops[i].size() > stops[*stop].size())) {
        start = at;
        stop = i;
      }
    }
    size_t keep = 0;
    for (const std::string& candidate : stops) {
      for (size_t length = std::min(candidate.size() - 1, held.size()); length > keep; --length) {
        if (holds && std::string_view(held).ends_with(candidate.substr(0, length))) keep = length;
      }
    }
    const std::string shown = held.substr(0, stop ? start : held.size() - keep);
    held = stop ? "" : held.substr(held.size() - keep);
    return shown;
  }
};

}  // namespace rafter::text
