#include "lab/machine_load.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/times.h>

namespace rafter::lab {
namespace {

constexpr double kBusyPercent = 5;

}  // namespace

MachineLoad::MachineLoad() : start_(now()) {
  double averages[1] = {0};
  if (getloadavg(averages, 1) == 1) load_before_ = averages[0];
}

MachineLoad::Ticks MachineLoad::now() {
  Ticks ticks;
  std::ifstream file("/proc/stat");
  std::string line, word;
  std::getline(file, line);  // "cpu user nice system idle iowait irq softirq steal guest guest_nice"
  std::istringstream fields(line);
  fields >> word;
  int64_t value = 0;
  for (int field = 0; field < 8 && fields >> value; ++field) {
    ticks.all += value;
    if (field == 3 || field == 4) ticks.idle += value;
  }
  tms own{};
  times(&own);
  ticks.ours = own.tms_utime + own.tms_stime;
  return ticks;
}

MachineLoad::Report MachineLoad::report() const {
  const Ticks end = now();
  const auto all = static_cast<double>(end.all - start_.all);
  Report report;
  report.load_before = load_before_;
  if (all > 0) {
    const auto others =
        static_cast<double>((end.all - start_.all) - (end.idle - start_.idle) - (end.ours - start_.ours));
    report.others_percent = std::max(0.0, 100 * others / all);
  }
  report.busy = report.others_percent > kBusyPercent;
  return report;
}

}  // namespace rafter::lab
