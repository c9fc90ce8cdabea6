#include "decode/random.h"

#include <atomic>
#include <chrono>

namespace rafter::decode {

uint64_t fresh_seed() {
  // The clock is read once: XOR with a constant keeps the counter's values distinct, a clock read per call
  // would not.
  static const auto start =
      static_cast<uint32_t>(std::chrono::system_clock::now().time_since_epoch().count());
  static std::atomic<uint32_t> counter{0};
  return start ^ (counter.fetch_add(0x9e3779b9u, std::memory_order_relaxed) + 0x9e3779b9u);
}

}  // namespace rafter::decode
