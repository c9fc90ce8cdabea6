// Comparing a kernel's output with the reference's: guarded buffers, screening for values that are not
// finite, and bounds derived from norms. No metric is computed before the screening, and every test is
// written so that a NaN fails it.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>

#include <fmt/format.h>

namespace rafter::kernels::testing {

// A buffer between two guards. Its elements start out as the bytes 0xFF (NaN in every float type), so what a
// kernel leaves unwritten shows, and so does what it writes past either end.
template <typename T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t size) : size_(size) {
    bytes_ = static_cast<std::byte*>(::operator new(kGuard * 2 + size * sizeof(T), std::align_val_t{64}));
    std::memset(bytes_, 0xA5, kGuard * 2 + size * sizeof(T));
    clear();
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { ::operator delete(bytes_, std::align_val_t{64}); }

  void clear() { std::memset(data(), 0xFF, size_ * sizeof(T)); }
  T* data() { return reinterpret_cast<T*>(bytes_ + kGuard); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_ + kGuard); }
  size_t size() const { return size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

  // What was written outside, or "".
  std::string damage() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != std::byte{0xA5}) return fmt::format("written {} bytes before the start", kGuard - i);
      if (bytes_[kGuard + size_ * sizeof(T) + i] != std::byte{0xA5}) {
        return fmt::format("written {} bytes past the end", i);
      }
    }
    return "";
  }
  // Whether elements [begin, end) are as clear() left them.
  bool untouched(size_t begin, size_t end) const {
    const std::byte* from = bytes_ + kGuard;
    for (size_t i = begin * sizeof(T); i < end * sizeof(T); ++i) {
      if (from[i] != std::byte{0xFF}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;  // bytes, a multiple of any vector
  size_t size_;
  std::byte* bytes_;
};

struct Verdict {
  bool ok = true;
  double worst = 0;  // largest error, in units of the bound
  std::string message;
};

// The bound on the error of an fp32 sum of `terms` products whose factors have L2 norms of product `norm`: by
// Cauchy-Schwarz the terms' magnitudes add up to no more than `norm`, and roundings of independent sign grow
// with the square root of their number. 4 standard deviations.
inline double rounding_bound(double norm, double terms) {
  return 4 * double{std::numeric_limits<float>::epsilon()} * std::sqrt(terms) * norm;
}

inline double l2_norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

// Each |actual − expected| ≤ the bound of its row of `width` values (bounds: one per row, or one for all).
inline Verdict compare_values(std::span<const float> actual, std::span<const float> expected, size_t width,
                              std::span<const double> bounds) {
  if (actual.size() != expected.size()) {
    return {false, 0, fmt::format("{} values, expected {}", actual.size(), expected.size())};
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(expected[i])) return {false, 0, fmt::format("expected[{}] = {}", i, expected[i])};
    if (!std::isfinite(actual[i])) {
      return {false, 0,
              fmt::format("[{}, {}] is {}, expected {}", i / width, i % width, actual[i], expected[i])};
    }
  }
  Verdict verdict;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double bound = bounds.size() == 1 ? bounds[0] : bounds[i / width];
    const double error = std::abs(double{actual[i]} - expected[i]);
    if (error == 0) continue;
    if (!(error / bound <= verdict.worst)) verdict.worst = error / bound;
    if (!(error <= bound) && verdict.ok) {
      verdict.ok = false;
      verdict.message = fmt::format("[{}, {}] is {:.9g}, expected {:.9g}: error {:.3g}, bound {:.3g}",
                                    i / width, i % width, actual[i], expected[i], error, bound);
    }
  }
  return verdict;
}

inline Verdict compare_values(std::span<const float> actual, std::span<const float> expected, double bound) {
  return compare_values(actual, expected, actual.empty() ? 1 : actual.size(), {&bound, 1});
}

// The same bits, after the same screening.
inline Verdict compare_bits(std::span<const float> actual, std::span<const float> expected) {
  const double none = 0;
  Verdict verdict = compare_values(actual, expected, actual.empty() ? 1 : actual.size(), {&none, 1});
  if (verdict.ok && !actual.empty() &&
      std::memcmp(actual.data(), expected.data(), actual.size_bytes()) != 0) {
    return {false, 0, "zeros of different sign"};
  }
  return verdict;
}

}  // namespace rafter::kernels::testing
