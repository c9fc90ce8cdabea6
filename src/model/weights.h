// A model's weights out of a checkpoint: matrices as views, vectors expanded to fp32, and an account of what
// was taken. Loading is strict both ways: what the model needs must be there, and what is there must be used
// or known.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "plan/emitter.h"

namespace rafter::model {

enum class Bias { none, optional, required };

class Weights {
 public:
  explicit Weights(const format::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(const std::string& tensor) const { return checkpoint_.has(tensor); }
  // Rows of the matrix at `module`; 0 if it is not there.
  int64_t rows(const std::string& module) const;

  // The matrix `module`.weight [rows, columns] and, as asked, `module`.bias [rows].
  base::Result<plan::Linear> linear(const std::string& module, int64_t rows, int64_t columns,
                                    Bias bias = Bias::none);
  // The vector `name` [size] in fp32; lives as long as the storage that take_storage() returns.
  base::Result<const float*> vector(const std::string& name, int64_t size);

  // Marks tensors as known and unused.
  void ignore(const std::function<bool(const std::string& tensor)>& matches);
  // Error that names tensors which nothing used or ignored.
  base::Status check_all_used() const;

  int64_t parameters() const { return parameters_; }  // logical elements of what was taken
  using Storage = std::vector<std::unique_ptr<float[]>>;
  Storage take_storage() { return std::move(storage_); }

 private:
  const format::Checkpoint& checkpoint_;
  std::set<std::string, std::less<>> used_;
  Storage storage_;
  int64_t parameters_ = 0;
};

}  // namespace rafter::model
