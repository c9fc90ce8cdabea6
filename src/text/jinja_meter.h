// Meter: what one render has used, and the bounds that a hostile template or input runs into.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja_failure.h"

namespace rafter::text::jinja {

struct Limits {
  // One step is a node evaluated, an item moved, or 64 bytes copied. The default is a few seconds of work.
  uint64_t steps = 50'000'000;
  size_t output_bytes = size_t{64} << 20;
  // Strings and containers alive at once, inputs not counted.
  size_t live_bytes = size_t{256} << 20;
  int evaluation_depth = 3000;  // nodes within nodes, across macro calls
  int range_items = 100'000;    // as the Jinja sandbox
};

// Containers and lazy iterators within each other; what is deeper is refused, so recursion over values is
// bounded.
inline constexpr int kMaxNesting = 256;

class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  const Limits& limits() const { return limits_; }

  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) fail(FailureKind::limit, "the template runs for too long");
  }
  void copy(size_t bytes) { step(1 + bytes / 64); }

  void reserve(size_t bytes) {
    if (bytes > limits_.live_bytes - live_bytes_) {
      fail(FailureKind::limit, "the template uses more than {} MiB", limits_.live_bytes >> 20);
    }
    live_bytes_ += bytes;
  }
  void release(size_t bytes) { live_bytes_ -= bytes; }

  // Fails if `count` times `bytes` would be larger than a render may hold.
  void check_size(uint64_t count, uint64_t bytes) const {
    if (bytes != 0 && count > limits_.live_bytes / bytes) {
      fail(FailureKind::limit, "{} times {} bytes are too much", count, bytes);
    }
  }

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  size_t live_bytes_ = 0;
};

// Bytes of a meter held by an object for as long as it lives.
class Charge {
 public:
  Charge() = default;
  Charge(Meter& meter, size_t bytes) : meter_(&meter), bytes_(bytes) { meter.reserve(bytes); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (meter_ != nullptr) meter_->release(bytes_);
  }

  // Counts an object made without a meter, once.
  void start(Meter& meter, size_t bytes) {
    meter.reserve(bytes);
    meter_ = &meter;
    bytes_ = bytes;
  }
  void grow_to(size_t bytes) {
    if (meter_ == nullptr || bytes <= bytes_) return;
    meter_->reserve(bytes - bytes_);
    bytes_ = bytes;
  }

 private:
  Meter* meter_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rafter::text::jinja
