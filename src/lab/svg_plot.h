// Figures as an SVG drawing: lines over a row of labels, or bars. No dependency, no script, one file.
#pragma once

#include <string>
#include <vector>

namespace rafter::lab {

struct PlotSeries {
  std::string name;
  std::vector<double> values;  // one per label; NaN: nothing there
};

struct Plot {
  std::string title, unit;
  std::vector<std::string> labels;  // of the horizontal axis
  std::vector<PlotSeries> series;
  double top = 0;  // of the vertical axis; 0: a round number above the largest value
};

// Lines with a mark at each value, all plots below one another.
std::string svg_of(const std::vector<Plot>& plots);

}  // namespace rafter::lab
