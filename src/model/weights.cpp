#include "model/weights.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;

int64_t Weights::rows(const std::string& module) const {
  auto found = checkpoint_.tensors().find(module + ".weight");
  return found == checkpoint_.tensors().end() || found->second.shape.empty() ? 0 : found->second.shape[0];
}

base::Result<plan::Linear> Weights::linear(const std::string& module, int64_t rows, int64_t columns,
                                           Bias bias) {
  plan::Linear linear;
  RAFTER_ASSIGN(linear.weight, checkpoint_.matrix(module, rows, columns));
  mark_used(module, rows * columns);
  const std::string bias_name = module + ".bias";
  if (bias == Bias::required || (bias == Bias::optional && has(bias_name))) {
    RAFTER_ASSIGN(linear.bias, vector(bias_name, rows));
  }
  return linear;
}

void Weights::mark_used(const std::string& module, int64_t parameters) {
  for (const char* part : {".weight", ".scales", ".biases", ""}) used_.insert(module + part);
  parameters_ += parameters;
}

base::Result<std::vector<plan::Linear>> Weights::linears(const std::string& module,
                                                         std::span<const int64_t> rows, int64_t columns) {
  int64_t total = 0;
  for (int64_t count : rows) total += count;
  RAFTER_ASSIGN(const plan::Linear whole, linear(module, total, columns));
  std::vector<plan::Linear> parts;
  int64_t first = 0;
  for (int64_t count : rows) {
    parts.push_back({whole.weight.row_range(first, count), nullptr});
    first += count;
  }
  return parts;
}

base::Result<std::vector<tensor::MatrixView>> Weights::stack(const std::string& module, int64_t count,
                                                             int64_t rows, int64_t columns) {
  RAFTER_ASSIGN(std::vector<tensor::MatrixView> views, checkpoint_.matrices(module, count, rows, columns));
  mark_used(module, count * rows * columns);
  return views;
}

base::Result<std::vector<tensor::MatrixView>> Weights::gather(const std::string& each, const char* part,
                                                              int64_t count, int64_t rows, int64_t columns) {
  std::vector<tensor::MatrixView> views;
  for (int64_t e = 0; e < count; ++e) {
    const std::string module = fmt::format("{}.{}.{}", each, e, part);
    RAFTER_ASSIGN(const plan::Linear one, linear(module, rows, columns));
    views.push_back(one.weight);
    if (views.back().format == views.front().format) continue;
    return Error{
        ErrorCode::unsupported,
        fmt::format("it is {} and expert 0 is {}", views.back().format.name(), views.front().format.name()),
        checkpoint_.path() + ": " + module, "experts of one layer must share their number format"};
  }
  return views;
}

base::Result<ExpertWeights> Weights::experts(const ExpertNames& names, int64_t count, int64_t hidden,
                                             int64_t width) {
  const auto is_stored = [&](const std::string& module) {
    return !module.empty() && (has(module + ".weight") || has(module));
  };
  ExpertWeights weights;
  if (is_stored(names.gate_up)) {
    RAFTER_ASSIGN(const auto both, stack(names.gate_up, count, 2 * hidden, width));
    for (const tensor::MatrixView& view : both) {
      weights.gate.push_back(view.row_range(0, hidden));
      weights.up.push_back(view.row_range(hidden, hidden));
    }
    RAFTER_ASSIGN(weights.down, stack(names.gate_up_down, count, width, hidden));
  } else if (names.each.empty() || is_stored(names.gate)) {
    RAFTER_ASSIGN(weights.gate, stack(names.gate, count, hidden, width));
    RAFTER_ASSIGN(weights.up, stack(names.up, count, hidden, width));
    RAFTER_ASSIGN(weights.down, stack(names.down, count, width, hidden));
  } else {
    RAFTER_ASSIGN(weights.gate, gather(names.each, "gate_proj", count, hidden, width));
    RAFTER_ASSIGN(weights.up, gather(names.each, "up_proj", count, hidden, width));
    RAFTER_ASSIGN(weights.down, gather(names.each, "down_proj", count, width, hidden));
  }
  return weights;
}

base::Result<const float*> Weights::vector(const std::string& name, int64_t size,
                                           const std::function<float(float)>& change) {
  RAFTER_ASSIGN(const tensor::VectorView view, checkpoint_.vector(name, size));
  used_.insert(name);
  parameters_ += size;
  auto values = std::make_unique<float[]>(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const float stored = view.at(i);
    values[static_cast<size_t>(i)] = change ? change(stored) : stored;
  }
  storage_.push_back(std::move(values));
  return static_cast<const float*>(storage_.back().get());
}

base::Result<const float*> Weights::convolution(const std::string& name, int64_t channels, int64_t taps) {
  const auto found = checkpoint_.tensors().find(name);
  std::vector<int64_t> shape = {channels, taps};
  if (found != checkpoint_.tensors().end() && found->second.shape.size() == 3) {
    const bool taps_last = found->second.shape[1] == 1 && found->second.shape[2] == taps;
    shape.insert(taps_last ? shape.begin() + 1 : shape.end(), 1);
  }
  RAFTER_ASSIGN(const tensor::VectorView view, checkpoint_.floats(name, shape));
  used_.insert(name);
  parameters_ += channels * taps;
  auto values = std::make_unique<float[]>(static_cast<size_t>(channels * taps));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < taps; ++j) values[static_cast<size_t>(j * channels + c)] = view.at(c * taps + j);
  }
  storage_.push_back(std::move(values));
  return static_cast<const float*>(storage_.back().get());
}

void Weights::ignore(const std::function<bool(const std::string&)>& matches) {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (matches(name) && used_.insert(name).second) ignored_bytes_ += tensor.bytes;
  }
}

base::Status Weights::check_all_used() const {
  std::string unused;
  int count = 0;
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (used_.contains(name)) continue;
    if (++count <= 3) unused += (count > 1 ? ", " : "") + name;
  }
  if (count == 0) return {};
  if (count > 3) unused += fmt::format(" and {} more", count - 3);
  return Error{ErrorCode::unsupported,
               fmt::format("{} tensor(s) have no place in this architecture: {}", count, unused),
               checkpoint_.path(),
               "the checkpoint is of another model type than its config says, or has extra parts"};
}

}  // namespace rafter::model
