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
  for (const char* part : {".weight", ".scales", ".biases"}) used_.insert(module + part);
  parameters_ += rows * columns;
  const std::string bias_name = module + ".bias";
  if (bias == Bias::required || (bias == Bias::optional && has(bias_name))) {
    RAFTER_ASSIGN(linear.bias, vector(bias_name, rows));
  }
  return linear;
}

base::Result<const float*> Weights::vector(const std::string& name, int64_t size) {
  RAFTER_ASSIGN(const tensor::VectorView view, checkpoint_.vector(name, size));
  used_.insert(name);
  parameters_ += size;
  auto values = std::make_unique<float[]>(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = view.at(i);
  storage_.push_back(std::move(values));
  return static_cast<const float*>(storage_.back().get());
}

void Weights::ignore(const std::function<bool(const std::string&)>& matches) {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (matches(name)) used_.insert(name);
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
