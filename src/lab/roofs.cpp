#include "lab/roofs.h"

#include "lab/machine_probe.h"
#include "lab/raw_read.h"
#include "lab/statistics.h"

namespace rafter::lab {

base::Result<Roofs> measure_roofs_blocking(base::CpuTier tier, int threads) {
  constexpr int kPasses = 5;
  constexpr int64_t kBytes = int64_t{256} << 20;
  const MachineLoad load;
  Roofs roofs;
  uint64_t checksum = 0;
  RAFTER_ASSIGN(RawRead raw, RawRead::create(kBytes, tier, threads));
  raw.choose_reader();
  std::vector<double> times;
  for (int pass = 0; pass < kPasses; ++pass) times.push_back(raw.read_seconds(kBytes));
  roofs.raw_read_gbps = raw.bytes_read_by(kBytes) * 1e-9 / median_of(times);
  RAFTER_ASSIGN(const auto team, base::WorkerTeam::create(threads));
  for (const PeakFigure& peak : measure_peaks(tier, *team, checksum)) {
    if (peak.instruction == "int8 dot" || peak.tops <= roofs.peak_tops) continue;
    roofs.peak_tops = peak.tops;
    roofs.peak_instruction = peak.instruction;
  }
  roofs.load = load.report();
  return roofs;
}

}  // namespace rafter::lab
