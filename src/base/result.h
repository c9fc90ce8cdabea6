// Result<T>: a value, or an Error that says what went wrong, where, and what to do about it.
//
//   base::Result<Config> parse(std::string_view text);
//   RAFTER_ASSIGN(auto config, parse(text));     // returns the error to the caller
//   RAFTER_TRY(check(config));                   // the same for Status
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace rafter::base {

enum class ErrorCode {
  invalid_argument,  // a flag, a request or a call is wrong: exit code 2 for flags
  not_found,         // a file, a model, a tensor that is not there
  invalid_data,      // a file's content is malformed or hostile
  unsupported,       // well-formed, but outside what this program does
  out_of_memory,     // refused for memory or context: exit code 3
  io,                // the system refused a read or a write
  interrupted,       // the user stopped it: exit code 4
  busy,              // too much work is waiting already: try again later
  unavailable,       // what would do it is not there now: a model that is loading, a worker that died
  internal,          // a fault of ours that could be contained
};

const char* error_code_name(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::internal;
  std::string what;   // one line, lower case, no full stop: "tensor data runs past the end of the file"
  std::string where;  // file, tensor, key, flag: "model.safetensors: model.norm.weight"; may be empty
  std::string hint;   // what to do next; may be empty

  // "where: what (hint)"
  std::string message() const;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    RAFTER_CHECK(ok(), "{}", std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  const T& value() const& {
    RAFTER_CHECK(ok(), "{}", std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  T value() && {  // by value: a reference into a temporary would dangle in `for (x : *f())`
    RAFTER_CHECK(ok(), "{}", std::get<1>(state_).message());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    RAFTER_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// A Result without a value. `return {};` is success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    RAFTER_CHECK(failed_);
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace rafter::base

#define RAFTER_CONCAT_INNER(a, b) a##b
#define RAFTER_CONCAT(a, b) RAFTER_CONCAT_INNER(a, b)

#define RAFTER_TRY(expression)                                    \
  do {                                                            \
    if (auto rafter_status = (expression); !rafter_status.ok()) { \
      return rafter_status.error();                               \
    }                                                             \
  } while (false)

#define RAFTER_ASSIGN(declaration, expression)                 \
  auto RAFTER_CONCAT(rafter_result_, __LINE__) = (expression); \
  if (!RAFTER_CONCAT(rafter_result_, __LINE__).ok()) {         \
    return RAFTER_CONCAT(rafter_result_, __LINE__).error();    \
  }                                                            \
  declaration = std::move(RAFTER_CONCAT(rafter_result_, __LINE__)).value()
