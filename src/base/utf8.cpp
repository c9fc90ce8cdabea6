#include "base/utf8.h"

namespace rafter::base {

Utf8Step decode_utf8(std::string_view text) {
  Utf8Step step;
  if (text.empty()) return step;
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  step.length = 1;
  int trailing;
  uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte only
  char32_t value;
  if (lead >= 0xC2 && lead <= 0xDF) {
    trailing = 1, value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    trailing = 2, value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    trailing = 3, value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return step;
  }
  for (int i = 1; i <= trailing; ++i) {
    if (static_cast<size_t>(i) >= text.size()) {
      step.truncated = true;
      return step;
    }
    if (byte(i) < low || byte(i) > high) return step;
    value = value << 6 | (byte(i) & 0x3F);
    step.length = static_cast<uint8_t>(i + 1);
    low = 0x80, high = 0xBF;
  }
  step.code_point = value;
  step.valid = true;
  return step;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    Utf8Step step = decode_utf8(text);
    if (!step.valid) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::string replace_malformed_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Utf8Step step = decode_utf8(text);
    if (step.valid) {
      out.append(text.substr(0, step.length));
    } else {
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(step.length);
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    std::string_view tail = text.substr(text.size() - length);
    if ((static_cast<uint8_t>(tail[0]) & 0xC0) == 0x80) continue;  // a continuation byte: look further left
    Utf8Step step = decode_utf8(tail);
    return !step.valid && step.truncated ? length : 0;
  }
  return 0;
}

}  // namespace rafter::base
