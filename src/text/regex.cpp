#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <pcre2.h>

#include "base/utf8.h"
#include "text/quote.h"
#include "text/regex_translate.h"

namespace rafter::text {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;
using Clock = std::chrono::steady_clock;

constexpr size_t kLongestPattern = 16 << 10;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using Owned = std::unique_ptr<T, Deleter<Free>>;
using OwnedCode = Owned<pcre2_code, pcre2_code_free>;

// One match may take this many steps before it is tried again under the clock. A step may scan the rest of
// the text, so the longer the text, the fewer; the same goes for how many places are tried for its start
// before the clock is looked at.
uint32_t step_limit(size_t text_size) {
  return static_cast<uint32_t>(std::clamp(2e9 / static_cast<double>(text_size + 1), 1e3, 1e7));
}
size_t start_limit(size_t text_size) { return std::max<size_t>(1, 10'000'000 / (text_size + 1)); }

std::chrono::milliseconds time_limit(size_t text_size) {
  return std::chrono::milliseconds(1000 + text_size / 1000);  // 1 MB/s is far below any sane pattern's speed
}

// Called before every item of a guarded expression.
int stop_at_deadline(pcre2_callout_block*, void* deadline) {
  return Clock::now() > *static_cast<const Clock::time_point*>(deadline) ? PCRE2_ERROR_CALLOUT : 0;
}

// What matching needs beside the code. One per thread, shared by all expressions.
struct Workspace {
  using Context = Owned<pcre2_match_context, pcre2_match_context_free>;
  Owned<pcre2_match_data, pcre2_match_data_free> match{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack{pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr)};
  Context fast{pcre2_match_context_create(nullptr)};
  Context guarded{pcre2_match_context_create(nullptr)};
  Clock::time_point deadline;

  Workspace() {
    constexpr uint32_t kHeapKib = 256 << 10;
    pcre2_jit_stack_assign(fast.get(), nullptr, stack.get());
    pcre2_set_heap_limit(guarded.get(), kHeapKib);
    pcre2_set_match_limit(guarded.get(), UINT32_MAX);
    pcre2_set_depth_limit(guarded.get(), UINT32_MAX);
    pcre2_set_callout(guarded.get(), stop_at_deadline, &deadline);
  }
};

// The start of the first character behind a position.
size_t next_character(std::string_view text, size_t position) {
  ++position;
  while (position < text.size() && (static_cast<uint8_t>(text[position]) & 0xC0) == 0x80) ++position;
  return position;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

Result<OwnedCode> compile_code(const std::string& pattern, uint32_t options, const std::string& where) {
  Owned<pcre2_compile_context, pcre2_compile_context_free> context{pcre2_compile_context_create(nullptr)};
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  OwnedCode code{pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                               &offset, context.get())};
  if (code == nullptr) {
    return Error{ErrorCode::unsupported,
                 fmt::format("regular expression {}: {}", quote(pattern), pcre2_message(error)), where, ""};
  }
  return code;
}

}  // namespace

// Two programs of one expression. The fast one has a limit of steps; the rare match that reaches it, or that
// needs more stack than the fast program has, is done again by the guarded one, which is interpreted and
// watches the clock.
struct Regex::Code {
  OwnedCode fast;
  OwnedCode guarded;
  std::string where;

  // As pcre2_match, for a match that starts in [start, last_start].
  int match(std::string_view text, size_t start, size_t last_start, Workspace& workspace) const;
};

Result<Regex> Regex::compile(std::string_view pattern, const std::string& where) {
  if (!base::is_valid_utf8(pattern)) {
    return Error{ErrorCode::invalid_data, "a regular expression that is not UTF-8", where, ""};
  }
  if (pattern.size() > kLongestPattern) {
    return Error{ErrorCode::unsupported, fmt::format("a regular expression of {} bytes", pattern.size()),
                 where, ""};
  }
  RAFTER_ASSIGN(const std::string translated, translate_to_pcre2(pattern, where));
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  auto code = std::make_shared<Code>();
  code->where = where;
  RAFTER_ASSIGN(code->fast, compile_code(translated, kOptions, where));
  RAFTER_ASSIGN(code->guarded, compile_code(translated, kOptions | PCRE2_AUTO_CALLOUT, where));
  (void)pcre2_jit_compile(code->fast.get(),
                          PCRE2_JIT_COMPLETE);  // without it matching is slower, not different
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

int Regex::Code::match(std::string_view text, size_t start, size_t last_start, Workspace& workspace) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  auto run = [&](const OwnedCode& code, const Workspace::Context& context) {
    pcre2_set_offset_limit(context.get(), last_start);
    return pcre2_match(code.get(), subject, text.size(), start, PCRE2_NO_UTF_CHECK, workspace.match.get(),
                       context.get());
  };
  const int result = run(fast, workspace.fast);
  const bool hit_limit = result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_JIT_STACKLIMIT ||
                         result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT;
  return hit_limit ? run(guarded, workspace.guarded) : result;
}

Status Regex::find_all(std::string_view text, std::vector<TextSpan>& matches) const {
  thread_local Workspace workspace;
  matches.clear();
  workspace.deadline = Clock::now() + time_limit(text.size());
  pcre2_set_match_limit(workspace.fast.get(), step_limit(text.size()));
  const size_t window = start_limit(text.size());
  size_t start = 0;
  size_t last_end = std::string_view::npos;  // of the last match
  for (size_t count = 1; start <= text.size(); ++count) {
    const size_t last_start = std::min(start + window, text.size());
    const int result = code_->match(text, start, last_start, workspace);
    const bool late = count % 16 == 0 && Clock::now() > workspace.deadline;
    if (late || (result < 0 && result != PCRE2_ERROR_NOMATCH)) {
      const bool timed_out = late || result == PCRE2_ERROR_CALLOUT;
      return Error{ErrorCode::invalid_data,
                   fmt::format("the regular expression takes too long on a text of {} bytes ({})",
                               text.size(), timed_out ? "time limit exceeded" : pcre2_message(result)),
                   code_->where, ""};
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(workspace.match.get());
    if (result == PCRE2_ERROR_NOMATCH) {
      start = next_character(text, last_start);
    } else if (span[0] == span[1] && span[1] == last_end) {
      start = next_character(text, start);
    } else {
      matches.push_back({span[0], span[1]});
      start = last_end = span[1];
    }
  }
  return {};
}

}  // namespace rafter::text
