#include "format/errors.h"

#include "base/utf8.h"

namespace rafter::format {

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 120;
  const bool cut = name.size() > kLongest;
  std::string text = base::replace_malformed_utf8(name.substr(0, kLongest));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return cut ? text + "…" : text;
}

}  // namespace rafter::format
