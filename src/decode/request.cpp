#include "decode/request.h"

namespace rafter::decode {
namespace {

double per_second(int64_t count, double seconds) {
  return count > 0 && seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  return "unknown";
}

double GenerationResult::prefill_tokens_per_second() const {
  return per_second(prompt_tokens - cached_tokens, prefill_seconds);
}

double GenerationResult::decode_tokens_per_second() const {
  return per_second(static_cast<int64_t>(tokens.size()) - 1, decode_seconds);
}

}  // namespace rafter::decode
