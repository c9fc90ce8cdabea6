// A model's weights out of a checkpoint: matrices as views, vectors expanded to fp32, and an account of what
// was taken. Loading is strict both ways: what the model needs must be there, and what is there must be used
// or known.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "plan/emitter.h"

namespace rafter::model {

enum class Bias { none, optional, required };

// The matrices of a mixture's experts, by role; each expert's gate and up are [I, D], its down is [D, I].
struct ExpertWeights {
  std::vector<tensor::MatrixView> gate, up, down;  // [E]

  plan::Experts emitted(kernels::GatedActivation activation) const { return {gate, up, down, activation}; }
};

// Where a checkpoint may hold them. Modules of stacked tensors [E, rows, columns]; an empty name is none. Of
// `gate_up` [E, 2I, D] the first I rows of each expert are gate's.
struct ExpertNames {
  std::string gate, up, down;
  std::string gate_up, gate_up_down;  // and the down that goes with it
  std::string each;                   // `each`.{e}.gate_proj, .up_proj and .down_proj: a matrix per expert
};

class Weights {
 public:
  explicit Weights(const format::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(const std::string& tensor) const { return checkpoint_.has(tensor); }
  // Rows of the matrix at `module`; 0 if it is not there.
  int64_t rows(const std::string& module) const;

  // The matrix `module`.weight [rows, columns] and, as asked, `module`.bias [rows].
  base::Result<plan::Linear> linear(const std::string& module, int64_t rows, int64_t columns,
                                    Bias bias = Bias::none);
  // Parts of one stored matrix that holds several projections one behind the other: `rows` of each.
  base::Result<std::vector<plan::Linear>> linears(const std::string& module, std::span<const int64_t> rows,
                                                  int64_t columns);
  // The experts, in the first layout of `names` that the checkpoint has. Errors: as linear(), and unsupported
  // when experts of one role differ in format.
  base::Result<ExpertWeights> experts(const ExpertNames& names, int64_t count, int64_t hidden, int64_t width);
  // The vector `name` [size] in fp32; lives as long as the storage that take_storage() returns.
  // `change` is applied to each value as it is read.
  base::Result<const float*> vector(const std::string& name, int64_t size,
                                    const std::function<float(float)>& change = {});
  // A depthwise convolution's weights, stored as [channels, 1, taps], [channels, taps, 1] or [channels,
  // taps], as [taps, channels] in fp32.
  base::Result<const float*> convolution(const std::string& name, int64_t channels, int64_t taps);

  // Marks tensors as known and unused.
  void ignore(const std::function<bool(const std::string& tensor)>& matches);
  // Error that names tensors which nothing used or ignored.
  base::Status check_all_used() const;

  int64_t parameters() const { return parameters_; }  // logical elements of what was taken
  int64_t ignored_bytes() const { return ignored_bytes_; }
  using Storage = std::vector<std::unique_ptr<float[]>>;
  Storage take_storage() { return std::move(storage_); }

 private:
  void mark_used(const std::string& module, int64_t parameters);
  base::Result<std::vector<tensor::MatrixView>> stack(const std::string& module, int64_t count, int64_t rows,
                                                      int64_t columns);
  base::Result<std::vector<tensor::MatrixView>> gather(const std::string& each, const char* part,
                                                       int64_t count, int64_t rows, int64_t columns);

  const format::Checkpoint& checkpoint_;
  std::set<std::string, std::less<>> used_;
  Storage storage_;
  int64_t parameters_ = 0;
  int64_t ignored_bytes_ = 0;
};

}  // namespace rafter::model
