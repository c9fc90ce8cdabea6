// What the terminal is, and text made safe for it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rafter::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Control characters (but newline and tab; carriage returns vanish) as U+FFFD: what a model writes must not
// move the cursor, set the title or answer for the user. `text` is UTF-8.
std::string without_control_characters(std::string_view text);

// The same with newlines and tabs as spaces: for names and messages that hold what a file or a user said.
std::string one_line(std::string_view text);

// Text to standard output, flushed; made safe when that is a terminal. False once a write failed.
bool write_stdout(std::string_view text);

// The same in a terminal's dim letters. Only for a terminal.
bool write_dim(std::string_view text);

// Flushes standard output, stdio's and iostreams'. Error (io) if a write has failed since the start.
base::Status check_stdout();

// "rafter: where: what (hint)" to standard error, on a line of its own, also when it breaks off an answer.
void print_error(const base::Error& error);

// Characters of a UTF-8 text: the columns it takes, near enough for tables of names.
size_t display_width(std::string_view text);

}  // namespace rafter::cli
