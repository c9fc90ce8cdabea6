// A team that runs kernels in tests: cursors fresh for each call, scratch of the size the kernel asked for
// between guards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/worker_team.h"
#include "kernels/op/kernel_table.h"
#include "tests/kernels/kernel_compare.h"

namespace rafter::kernels::testing {

class TestTeam {
 public:
  explicit TestTeam(int threads) : team_(threads) {
    for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<TeamWorker>(i, &team_));
    set_scratch({});
  }

  int size() const { return team_.size(); }

  // Gives each worker, and the team, exactly this much; contents are 0xFF bytes.
  void set_scratch(KernelTable::Scratch sizes) {
    shared_ = std::make_unique<GuardedBuffer<std::byte>>(sizes.shared);
    scratch_.clear();
    for (auto& worker : workers_) {
      scratch_.push_back(std::make_unique<GuardedBuffer<std::byte>>(sizes.per_worker));
      worker->set_memory(scratch_.back()->span(), shared_->span());
    }
  }

  template <typename Args>
  void run(void (*kernel)(const Args&, Worker&), const Args& args) {
    Worker::Cursor cursors[Worker::kPhases];
    team_.run_blocking([&](int index) {
      workers_[index]->set_cursors(cursors);
      kernel(args, *workers_[index]);
    });
  }

  // What was written outside the scratch, or "".
  std::string damage() const {
    for (const auto& scratch : scratch_) {
      if (!scratch->damage().empty()) return "worker scratch " + scratch->damage();
    }
    return shared_->damage().empty() ? "" : "shared scratch " + shared_->damage();
  }

 private:
  class TeamWorker : public Worker {
   public:
    TeamWorker(int index, base::WorkerTeam* team) : Worker(index, team->size()), team_(team) {}
    void barrier() override { team_->barrier(); }

   private:
    base::WorkerTeam* team_;
  };

  base::WorkerTeam team_;
  std::vector<std::unique_ptr<TeamWorker>> workers_;
  std::vector<std::unique_ptr<GuardedBuffer<std::byte>>> scratch_;
  std::unique_ptr<GuardedBuffer<std::byte>> shared_;
};

}  // namespace rafter::kernels::testing
