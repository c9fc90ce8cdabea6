// Lines from a person or a pipe.
#pragma once

#include <memory>
#include <string>

#include "cli/interrupt.h"

namespace rafter::cli {

class LineReader {
 public:
  enum class Event {
    line,
    interrupted,  // Ctrl-C; `text` is what stood on the line
    end,          // end of input, or Ctrl-D on an empty line
    failed,       // standard input cannot be read; `text` says why
  };
  struct Input {
    Event event = Event::end;
    std::string text;  // without its newline
  };

  virtual ~LineReader() = default;
  // Blocks until a line, a Ctrl-C or the end.
  virtual Input read_blocking(const std::string& prompt) = 0;
};

// On a terminal: line editing with a history that is kept in `history_file` (empty: not kept). Otherwise
// plain lines, and the prompt is not printed.
std::unique_ptr<LineReader> make_line_reader(InterruptFlag& interrupt, const std::string& history_file);

}  // namespace rafter::cli
