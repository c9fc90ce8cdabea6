// The memory roof: how fast the cores read memory that is in no cache, with the best of several readers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/cpu_info.h"
#include "base/result.h"
#include "base/worker_team.h"
#include "device/host_memory.h"
#include "kernels/cpu/probes.h"

namespace rafter::lab {

// A buffer on huge pages, filled with random words, that a team reads from end to end.
class RawRead {
 public:
  // `bytes` is rounded down to a whole number of parts. Errors: out_of_memory (more than half of what is
  // free is refused, too).
  static base::Result<RawRead> create(int64_t bytes, base::CpuTier tier, int threads);

  int64_t bytes() const { return bytes_; }
  // Tries every reader over the buffer's first `bytes` and keeps the fastest for read_seconds().
  void choose_reader();
  const char* reader() const { return reader_->name; }

  // Seconds for one pass over the first `bytes` (all of it if more).
  double read_seconds(int64_t bytes);
  double bytes_read_by(int64_t bytes) const;  // of such a pass

  // Depends on everything that was read.
  uint64_t checksum() const { return checksum_; }

 private:
  double time(const kernels::ReadProbe& reader, int64_t bytes);
  int64_t part_of(int64_t bytes) const;

  device::HostMemory memory_;
  int64_t bytes_ = 0;
  std::unique_ptr<base::WorkerTeam> team_;
  kernels::CpuProbes probes_;
  const kernels::ReadProbe* reader_ = nullptr;
  uint64_t checksum_ = 0;
};

}  // namespace rafter::lab
