#include "cli/line_reader.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/terminal.h"

namespace rafter::cli {
namespace {

constexpr size_t kLongestLine = 16 << 20;

// Not std::getline: Ctrl-C must be seen while waiting.
class PlainReader final : public LineReader {
 public:
  explicit PlainReader(InterruptFlag& interrupt) : interrupt_(interrupt) {}

  Input read_blocking(const std::string&) override {
    for (;;) {
      if (const size_t newline = buffer_.find('\n', searched_); newline != std::string::npos) {
        std::string line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        searched_ = 0;
        if (line.ends_with('\r')) line.pop_back();
        return {Event::line, std::move(line)};
      }
      searched_ = buffer_.size();
      char chunk[4096];
      if (buffer_.size() >= kLongestLine) return {Event::failed, "a line is longer than 16 MiB"};
      const ssize_t count = interrupt_.read_blocking(STDIN_FILENO, chunk, sizeof(chunk));
      if (count < 0 && interrupt_.raised()) return {Event::interrupted, ""};
      if (count < 0) return {Event::failed, std::strerror(errno)};
      if (count == 0) {
        if (buffer_.empty()) return {Event::end, ""};
        searched_ = 0;
        return {Event::line, std::exchange(buffer_, "")};
      }
      buffer_.append(chunk, static_cast<size_t>(count));
    }
  }

 private:
  InterruptFlag& interrupt_;
  std::string buffer_;
  size_t searched_ = 0;
};

class EditingReader final : public LineReader {
 public:
  EditingReader(InterruptFlag& interrupt, std::string history_file)
      : interrupt_(interrupt), history_file_(std::move(history_file)) {
    // Line editing counts characters by the locale; without a UTF-8 one every byte would be a column.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = ::el_init("rafter", stdin, stdout, stderr);
    history_ = ::history_init();
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, 1000);
    ::history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) ::history(history_, &event, H_LOAD, history_file_.c_str());
    ::el_set(editor_, EL_CLIENTDATA, this);
    ::el_set(editor_, EL_PROMPT, &prompt_of);
    ::el_set(editor_, EL_GETCFN, &read_character);
    ::el_set(editor_, EL_EDITOR, "emacs");
    ::el_set(editor_, EL_HIST, ::history, history_);
    ::el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }

  ~EditingReader() override {
    ::el_end(editor_);
    ::history_end(history_);
  }

  Input read_blocking(const std::string& prompt) override {
    prompt_ = prompt;
    int count = 0;
    ::el_resize(editor_);  // the window may have another size now
    const char* text = ::el_gets(editor_, &count);
    if (text == nullptr || count <= 0) {
      const Input input{interrupt_.raised() ? Event::interrupted : Event::end, typed_text()};
      ::el_reset(editor_);
      std::fputs("\n", stdout);
      return input;
    }
    std::string line(text, static_cast<size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    remember(line);
    return {Event::line, std::move(line)};
  }

 private:
  static char* prompt_of(EditLine* editor) {
    EditingReader* self = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  // One character from the terminal, whose bytes come one by one; malformed ones are passed over.
  static int read_character(EditLine* editor, wchar_t* character) {
    EditingReader* self = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &self);
    std::string bytes;
    for (;;) {
      char byte;
      const ssize_t count = self->interrupt_.read_blocking(STDIN_FILENO, &byte, 1);
      if (count <= 0) return static_cast<int>(count);
      bytes += byte;
      const base::Utf8Step step = base::decode_utf8(bytes);
      if (step.truncated) continue;
      if (step.valid) {
        // A Ctrl-D typed while an answer was printed was queued as an end of file, which reads as NUL now.
        *character = step.code_point == 0 ? L'\x04' : static_cast<wchar_t>(step.code_point);
        return 1;
      }
      bytes.clear();
    }
  }

  std::string typed_text() const {
    const LineInfo* line = ::el_line(editor_);
    return {line->buffer, static_cast<size_t>(line->lastchar - line->buffer)};
  }

  void remember(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    HistEvent event;
    ::history(history_, &event, H_ENTER, line.c_str());
    if (history_file_.empty()) return;
    // Saved at once: a program that is killed has lost nothing. The file is the user's alone.
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(history_file_).parent_path(), ignored);
    const mode_t old_mask = ::umask(077);
    ::history(history_, &event, H_SAVE, history_file_.c_str());
    ::umask(old_mask);
  }

  InterruptFlag& interrupt_;
  std::string history_file_, prompt_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(InterruptFlag& interrupt, const std::string& history_file) {
  if (!stdin_is_terminal() || !stdout_is_terminal()) return std::make_unique<PlainReader>(interrupt);
  return std::make_unique<EditingReader>(interrupt, history_file);
}

}  // namespace rafter::cli
