#include "cli/terminal.h"

#include <cstdio>

#include <unistd.h>

#include "base/utf8.h"

namespace rafter::cli {

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string without_control_characters(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const base::Utf8Step step = base::decode_utf8(text);
    const char32_t c = step.code_point;
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    if (c == '\r') {
      // a carriage return would overwrite the line; its newline comes next
    } else if (control || !step.valid) {
      base::append_utf8(safe, 0xFFFD);
    } else {
      safe.append(text.substr(0, step.length));
    }
    text.remove_prefix(step.length);
  }
  return safe;
}

void write_stdout(std::string_view text) {
  static const bool on_terminal = stdout_is_terminal();
  const std::string safe = on_terminal ? without_control_characters(text) : std::string(text);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
  std::fflush(stdout);
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return width;
}

}  // namespace rafter::cli
