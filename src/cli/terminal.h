// What the terminal is, and text made safe for it.
#pragma once

#include <string>
#include <string_view>

namespace rafter::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Control characters (but newline and tab; carriage returns vanish) as U+FFFD: what a model writes must not
// move the cursor, set the title or answer for the user. `text` is UTF-8.
std::string without_control_characters(std::string_view text);

// Text to standard output, flushed; made safe when that is a terminal.
void write_stdout(std::string_view text);

// Characters of a UTF-8 text: the columns it takes, near enough for tables of names.
size_t display_width(std::string_view text);

}  // namespace rafter::cli
