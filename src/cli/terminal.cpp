#include "cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <unistd.h>

#include "base/utf8.h"

namespace rafter::cli {
namespace {

int stdout_error = 0;   // errno of the first write that failed
bool mid_line = false;  // the last text did not end its line

void note_stdout(bool good) {
  if (!good && stdout_error == 0) stdout_error = errno;
}

}  // namespace

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

std::string one_line(std::string_view text) {
  std::string line = without_control_characters(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

namespace {

// Past stdio, which takes a write that a Ctrl-C interrupted for a failed one. False with errno set.
bool write_through(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

bool write_stdout(std::string_view text) {
  static const bool on_terminal = stdout_is_terminal();
  const std::string safe = on_terminal ? without_control_characters(text) : std::string(text);
  note_stdout(std::fflush(stdout) == 0);
  note_stdout(write_through(STDOUT_FILENO, safe));
  if (!text.empty()) mid_line = !text.ends_with('\n');
  return stdout_error == 0;
}

bool write_dim(std::string_view text) {
  constexpr std::string_view kDim = "\x1B[2m", kNormal = "\x1B[22m";
  note_stdout(write_through(STDOUT_FILENO, kDim));
  write_stdout(text);
  note_stdout(write_through(STDOUT_FILENO, kNormal));
  return stdout_error == 0;
}

base::Status check_stdout() {
  errno = 0;
  std::cout.flush();
  note_stdout(std::cout.good() || errno == 0);
  note_stdout(std::fflush(stdout) == 0);
  const bool failed_before = !std::cout.good() || std::ferror(stdout) != 0;
  if (stdout_error == 0 && failed_before) stdout_error = EIO;  // what it was is not known any more
  if (stdout_error == 0) return {};
  return base::Error{base::ErrorCode::io, std::strerror(stdout_error), "standard output",
                     "the output is not complete"};
}

void print_error(const base::Error& error) {
  constexpr size_t kLongest = 2000;  // bytes: a file or a template can name things at any length
  if (mid_line) write_stdout("\n");
  std::string line = one_line(error.message());
  if (line.size() > kLongest) line = base::replace_malformed_utf8(line.substr(0, kLongest)) + "…";
  fmt::print(stderr, "rafter: {}\n", line);
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return width;
}

}  // namespace rafter::cli
