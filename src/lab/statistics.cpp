#include "lab/statistics.h"

#include <algorithm>

namespace rafter::lab {

double quantile_of(std::span<const double> values, double quantile) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(quantile * last + 0.5);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

double spread_percent(std::span<const double> values) {
  const double median = median_of(values);
  if (median <= 0) return 0;
  return 100 * (quantile_of(values, 0.75) - quantile_of(values, 0.25)) / median;
}

}  // namespace rafter::lab
