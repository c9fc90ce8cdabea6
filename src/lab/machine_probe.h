// What this machine gives, measured: memory, arithmetic, and what it costs to start and to meet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/machine_load.h"
#include "lab/matmul_probe.h"

namespace rafter::lab {

struct MachineProbeOptions {
  int threads = 0;                           // 0: every core this process may use
  std::vector<double> read_gib = {1, 2, 4};  // sizes of the raw read; those that do not fit are left out
  std::vector<double> matrix_mib = {1.3, 3.8, 8, 32, 60, 108, 360, 540};
  std::vector<tensor::NumberFormat> formats;         // empty: q4g64, q8g64, bf16
  std::function<void(const std::string&)> progress;  // what is being measured now; may be null
};

struct PeakFigure {
  std::string instruction;  // "fp32 fma", "bf16 dot", "int8 dot"
  double tops = 0;          // 10^12 operations per second, every thread; a multiply-add counts two
};

struct MachineFigures {
  std::string processor, tier;
  int threads = 0;
  std::string reader;        // of the raw read: the fastest of those tried
  double raw_read_gbps = 0;  // every thread; the best size's median
  struct BySize {
    double gib = 0, gbps = 0;
  };
  std::vector<BySize> raw_read_by_size;
  struct ByThreads {
    int threads = 0;
    double gbps = 0;
  };
  std::vector<ByThreads> raw_read_by_threads;
  std::vector<PeakFigure> peaks;
  struct Matrix {
    std::string format;
    MatmulFigure figure;
  };
  std::vector<Matrix> matrices;  // one row of input
  double tiny_op_us = 0;         // of a chain of dependent tiny ops, their barriers included
  double barrier_us = 0;
  double launch_us = 0;    // an empty parallel region
  double readback_us = 0;  // the host reads logits where they are: nothing to copy
  uint64_t checksum = 0;
  MachineLoad::Report load;
};

base::Result<MachineFigures> measure_machine(const MachineProbeOptions& options);

// The peaks alone: every thread, the median of several runs of about 20 ms.
std::vector<PeakFigure> measure_peaks(base::CpuTier tier, base::WorkerTeam& team, uint64_t& checksum);

}  // namespace rafter::lab
