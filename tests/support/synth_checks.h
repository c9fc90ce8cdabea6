// The checks that synthetic checkpoints must pass. Each returns what is wrong, "" if nothing is.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "format/checkpoint.h"
#include "tensor/codec.h"

namespace rafter::testing {

// Name → "TYPE DIM…", as files spell types.
using TensorNames = std::map<std::string, std::string>;

inline std::string tensor_text(std::string_view type, const std::vector<int64_t>& shape) {
  return fmt::format("{} {}", type, fmt::join(shape, " "));
}

// A section of tests/fixtures/synth/tensors.txt (oracle/synth_fixtures.py), folded layers unfolded; empty if
// there is no such section.
inline TensorNames expected_tensors(const std::string& shape, const std::string& format) {
  std::ifstream file(RAFTER_SOURCE_DIR "/tests/fixtures/synth/tensors.txt");
  std::string line;
  while (std::getline(file, line) && line != shape + " " + format) {
  }
  TensorNames result;
  while (std::getline(file, line) && !line.empty()) {
    const size_t space = line.find(' '), open = line.find('{'), close = line.find('}');
    const std::string name = line.substr(0, space), rest = line.substr(space + 1);
    if (open == std::string::npos) {
      result[name] = rest;
      continue;
    }
    std::istringstream ranges(line.substr(open + 1, close - open - 1));
    for (std::string range; std::getline(ranges, range, ',');) {
      const int first = std::stoi(range), last = std::stoi(range.substr(range.find('-') + 1));
      for (int layer = first; layer <= last; ++layer)
        result[name.substr(0, open) + std::to_string(layer) + name.substr(close + 1)] = rest;
    }
  }
  return result;
}

inline TensorNames stored_tensors(const format::Checkpoint& checkpoint) {
  TensorNames result;
  for (const auto& [name, tensor] : checkpoint.tensors())
    result[name] = tensor_text(tensor.type_name, tensor.shape);
  return result;
}

inline std::string names_fault(const TensorNames& expected, const TensorNames& actual) {
  if (expected.empty()) return "nothing is expected";
  for (const auto& [name, text] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return name + " is missing";
    if (found->second != text) return name + " is " + found->second + ", not " + text;
  }
  for (const auto& [name, text] : actual) {
    if (!expected.contains(name)) return name + " is too much";
  }
  return "";
}

// Mean 0 and standard deviation 1 / √columns, as far as the matrix's size lets one say.
inline std::string moments_fault(const tensor::MatrixView& matrix) {
  std::vector<float> row(static_cast<size_t>(matrix.columns));
  double sum = 0, squares = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    tensor::decode_row(matrix, r, row);
    for (float value : row) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  }
  const auto count = static_cast<double>(matrix.rows * matrix.columns);
  const double unit = std::sqrt(static_cast<double>(matrix.columns));
  const double mean = sum / count * unit, deviation = std::sqrt(squares / count) * unit;
  if (std::abs(mean) <= 0.02 && std::abs(deviation - 1) <= 0.02) return "";
  return fmt::format("mean {:.4f} and deviation {:.4f} of what the width asks for", mean, deviation);
}

// Logits of a random model: finite, about normal, spread by about 1.
inline std::string logits_fault(std::span<const float> logits) {
  double sum = 0, squares = 0, largest = 0;
  for (float value : logits) {
    if (!std::isfinite(value)) return "a logit is not finite";
    sum += value;
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const auto count = static_cast<double>(logits.size());
  const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
  if (std::abs(mean) < 0.5 && deviation > 0.5 && deviation < 2 && largest < 8) return "";
  return fmt::format("mean {:.2f}, deviation {:.2f}, largest {:.2f}", mean, deviation, largest);
}

}  // namespace rafter::testing
