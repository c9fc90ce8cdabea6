#include "text/quote.h"

#include "base/utf8.h"

namespace rafter::text {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out = "\"";
  for (size_t position = 0; position < text.size();) {
    const base::Utf8Step step = base::decode_utf8(text.substr(position));
    if (position + step.length > kLongest) {
      out += "…";
      break;
    }
    const bool is_control = step.code_point < 0x20 || (step.code_point >= 0x7F && step.code_point < 0xA0);
    base::append_utf8(out, is_control ? 0xFFFD : step.code_point);
    position += step.length;
  }
  return out + "\"";
}

}  // namespace rafter::text
