// The few statistics that measurements are quoted with.
#pragma once

#include <span>
#include <vector>

namespace rafter::lab {

// The value below which a share `quantile` in [0, 1] of the values lies (nearest rank); 0 of none.
double quantile_of(std::span<const double> values, double quantile);
inline double median_of(std::span<const double> values) { return quantile_of(values, 0.5); }

// (third quartile − first quartile) / median, in percent.
double spread_percent(std::span<const double> values);

}  // namespace rafter::lab
