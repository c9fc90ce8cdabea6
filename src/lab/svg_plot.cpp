#include "lab/svg_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace rafter::lab {
namespace {

constexpr double kWidth = 900, kHeight = 340, kLeft = 70, kRight = 220, kTop = 44, kBottom = 70;
constexpr int kGridLines = 5;
// Colours that people with the common kinds of colour blindness tell apart (Okabe and Ito, 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

// 1, 2 or 5 times a power of ten, at least `value`.
double round_up(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

double top_of(const Plot& plot) {
  if (plot.top > 0) return plot.top;
  double most = 0;
  for (const PlotSeries& series : plot.series) {
    for (double value : series.values) {
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  return round_up(most);
}

std::string text(double x, double y, const char* anchor, int size, const std::string& what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
                     anchor, size, escaped(what));
}

std::string draw(const Plot& plot, double offset) {
  const double plot_width = kWidth - kLeft - kRight, plot_height = kHeight - kTop - kBottom,
               top = top_of(plot);
  const size_t count = plot.labels.size();
  const auto x_of = [&](size_t i) {
    return kLeft +
           plot_width * (static_cast<double>(i) + 0.5) / static_cast<double>(std::max<size_t>(count, 1));
  };
  const auto y_of = [&](double value) { return offset + kTop + plot_height * (1 - value / top); };
  std::string out = text(kLeft, offset + 24, "start", 15, plot.title);
  for (int i = 0; i <= kGridLines; ++i) {
    const double value = top * i / kGridLines, y = y_of(value);
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                       kLeft, y, kLeft + plot_width, y);
    out += text(kLeft - 8, y + 4, "end", 11,
                fmt::format("{:g}{}", value, i == kGridLines ? " " + plot.unit : ""));
  }
  for (size_t i = 0; i < count; ++i) {
    const double x = x_of(i), y = offset + kHeight - kBottom + 14;
    out += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"11\" transform=\"rotate(-30 {:.1f} "
        "{:.1f})\">{}</text>\n",
        x, y, x, y, escaped(plot.labels[i]));
  }
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const PlotSeries& series = plot.series[s];
    const char* colour = kColours[s % std::size(kColours)];
    std::string path;
    for (size_t i = 0; i < std::min(count, series.values.size()); ++i) {
      if (!std::isfinite(series.values[i])) continue;
      const double x = x_of(i), y = y_of(std::clamp(series.values[i], 0.0, top));
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.1f} {}</title></circle>\n",
          x, y, colour, escaped(plot.labels[i] + ", " + series.name), series.values[i], escaped(plot.unit));
    }
    out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, colour);
    const double y = offset + kTop + 16 * static_cast<double>(s) + 8;
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"4\" fill=\"{}\"/>\n",
                       kWidth - kRight + 12, y - 4, colour);
    out += text(kWidth - kRight + 30, y, "start", 11, series.name);
  }
  return out;
}

}  // namespace

std::string svg_of(const std::vector<Plot>& plots) {
  const double height = kHeight * static_cast<double>(std::max<size_t>(plots.size(), 1));
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  for (size_t i = 0; i < plots.size(); ++i) out += draw(plots[i], kHeight * static_cast<double>(i));
  return out + "</svg>\n";
}

}  // namespace rafter::lab
