// Reading: incremental parsers as straight-line code. A reading is a coroutine that takes the bytes of a
// stream whose end may not be there yet:
//
//   Reading read_word(Source& in, std::string& word) {
//     co_await expect(in, "<b>");                         // readings call each other
//     for (int c; (c = co_await in.next()) != '<';) word += static_cast<char>(c);
//   }
//
// It suspends where bytes are missing and goes on when they come, so what it does depends on the bytes alone
// and never on how they were cut. Text that is not what the reading expects ends it with Malformed. For
// implementation files of text/output_*.cpp only.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rafter::text::output {

// Thrown by readings, caught by OutputParser: the markup becomes text.
struct Malformed {};

class Source;

class [[nodiscard]] Reading {
 public:
  struct promise_type {
    Source* source = nullptr;
    std::exception_ptr failure;

    Reading get_return_object() { return Reading(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failure = std::current_exception(); }
  };
  using Handle = std::coroutine_handle<promise_type>;

  Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    if (handle_) handle_.destroy();
  }

  // co_await a_reading: runs it to its end; what it throws is thrown here.
  bool await_ready() const { return false; }
  void await_suspend(Handle caller);
  void await_resume() const { rethrow(); }

  Handle handle() const { return handle_; }
  void rethrow() const {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
  }

 private:
  explicit Reading(Handle handle) : handle_(handle) {}

  Handle handle_;
};

inline bool is_space(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// The bytes of a stream, and the readings that wait for them.
class Source {
 public:
  static constexpr int kEnd = -1;  // what next and peek give after the last byte
  static constexpr size_t kMostRecorded = size_t{16} << 20;

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // For the owner. Runs `root`, which must outlive its run, until it wants bytes.
  void start(const Reading& root);
  // Bytes that follow; the reading runs until it wants more. What it throws is thrown here.
  void push(std::string_view bytes);
  // No more bytes: the reading runs to its end.
  void finish();
  // Whether bytes are left that no reading took.
  bool has_bytes() const { return !bytes_.empty(); }

 private:
  enum class Want { nothing, byte, visible };
  struct Await {
    Source& source;
    Want want;
    bool takes;
    bool await_ready() { return source.is_ready(want); }
    void await_suspend(std::coroutine_handle<>) { source.want_ = want; }
    int await_resume() {
      if (source.recorded_.size() > kMostRecorded) throw Malformed{};
      return takes ? source.take() : source.front();
    }
  };

 public:
  // For readings: `co_await in.next()` takes a byte (0 to 255), `peek` looks at it, `peek_visible` first
  // takes the white space in front of it.
  Await next() { return {*this, Want::byte, true}; }
  Await peek() { return {*this, Want::byte, false}; }
  Await peek_visible() { return {*this, Want::visible, false}; }
  // The bytes at hand up to the first one with stop[byte], taken; may be empty.
  std::string_view take_until(const bool (&stop)[256]);

  // What is taken from now on is also kept, behind `text`, until the next call. More than kMostRecorded bytes
  // are Malformed for the reading.
  void record(std::string_view text) { recorded_ = text, recording_ = true; }
  std::string stop_recording() { return recording_ = false, std::exchange(recorded_, {}); }

 private:
  friend class Reading;

  bool is_ready(Want want);
  int front() const { return bytes_.empty() ? kEnd : static_cast<unsigned char>(bytes_.front()); }
  int take();
  void run();

  std::string_view bytes_;
  bool ended_ = false, recording_ = false;
  std::string recorded_;
  Want want_ = Want::nothing;            // what the innermost reading waits for
  std::vector<Reading::Handle> active_;  // each is called by the one before it
};

inline void Reading::await_suspend(Handle caller) {
  handle_.promise().source = caller.promise().source;
  handle_.promise().source->active_.push_back(handle_);
}

// Takes exactly `text`. It must outlive the reading: a literal.
Reading expect(Source& in, std::string_view text);
// The same after white space.
Reading expect_visible(Source& in, std::string_view text);
// Takes what comes before one of the bytes in `ends` (not that byte itself). Malformed at the stream's end
// and beyond `most` bytes.
Reading take_word(Source& in, std::string_view ends, size_t most, std::string& word);

inline constexpr size_t kMostNameBytes = 256;  // of functions, keys and ids

}  // namespace rafter::text::output
