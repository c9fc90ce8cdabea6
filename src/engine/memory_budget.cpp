#include "engine/memory_budget.h"

#include <algorithm>

#include "device/host_memory.h"

namespace rafter::engine {

int64_t scratch_bytes(int64_t rows, int64_t width, int64_t wanted, int64_t vocabulary) {
  constexpr int64_t kValues = 32, kFloat = 4;
  return kFloat * (rows * width * kValues + wanted * vocabulary);
}

base::Result<int64_t> cache_budget(const MemoryNeed& need, int64_t budget) {
  constexpr double kShareOfMachine = 0.75, kShareOfAvailable = 0.9, kLeastShare = 1.0 / 16;
  if (budget > 0) {
    const int64_t left = budget - need.weights - need.scratch;
    if (left > 0) return left;
    return base::Error{base::ErrorCode::out_of_memory,
                       fmt::format("the weights take {} bytes, a step {}, and the budget is {}", need.weights,
                                   need.scratch, budget),
                       "--memory-budget", "allow more, or use a smaller model"};
  }
  const double usable = std::min(kShareOfMachine * static_cast<double>(device::memory_limit()),
                                 kShareOfAvailable * static_cast<double>(device::available_memory()));
  const double left = usable - static_cast<double>(need.weights + need.scratch);
  return static_cast<int64_t>(std::max(left, usable * kLeastShare));
}

}  // namespace rafter::engine
