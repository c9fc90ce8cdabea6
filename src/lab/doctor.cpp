#include "lab/doctor.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <sys/resource.h>

#include "base/cpu_info.h"
#include "base/worker_team.h"
#include "device/host_memory.h"
#include "lab/machine_probe.h"
#include "lab/roofs.h"
#include "lab/statistics.h"

namespace rafter::lab {
namespace {

namespace fs = std::filesystem;

constexpr double kGigabyte = 1e9;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / kGigabyte); }

Finding isa_finding(base::CpuTier tier) {
  Finding finding{"isa", FindingLevel::fine, fmt::format("{} kernels", base::cpu_tier_name(tier)), "", ""};
  const base::CpuTier best = base::supported_tiers().back();
  if (tier != best) {
    finding.level = FindingLevel::warning;
    finding.cost = fmt::format("this machine could run the {} kernels", base::cpu_tier_name(best));
    finding.mend = "unset RAFTER_ISA";
  } else if (tier == base::CpuTier::portable) {
    finding.level = FindingLevel::warning;
    finding.cost = "the portable kernels are several times slower";
    finding.mend = "use a processor with AVX2 or AVX-512";
  } else if (tier == base::CpuTier::avx2) {
    finding.level = FindingLevel::note;
    finding.cost = "no bf16 dot products: prompts and many rows are slower";
  }
  return finding;
}

// Kinds of cores by their greatest frequency, where the system tells.
Finding cores_finding(int usable) {
  std::map<std::string, int> kinds;
  const int online = count_of_list(first_line("/sys/devices/system/cpu/online"));
  for (int cpu = 0; cpu < online; ++cpu) {
    const std::string hertz =
        first_line(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq", cpu));
    if (!hertz.empty()) ++kinds[hertz];
  }
  Finding finding{"cores", FindingLevel::fine, fmt::format("{} usable of {} online", usable, online), "", ""};
  if (kinds.size() > 1) {
    finding.level = FindingLevel::note;
    finding.what += fmt::format(", {} kinds", kinds.size());
    finding.cost = "a step's barriers wait for the slower cores";
    finding.mend = "compare --threads with the number of fast cores";
  } else if (usable < online) {
    finding.level = FindingLevel::note;
    finding.cost = "this process may not run on the others";
    finding.mend = "widen its affinity (taskset, the container's cpuset)";
  }
  return finding;
}

Finding nodes_finding() {
  const int nodes = std::max(1, count_of_list(first_line("/sys/devices/system/node/online")));
  Finding finding{"memory_nodes", FindingLevel::fine, fmt::format("{}", nodes), "", ""};
  if (nodes > 1) {
    finding.level = FindingLevel::warning;
    finding.cost = "cores read another node's memory more slowly";
    finding.mend = "run on one node, or spread the pages: numactl --interleave=all rafter …";
  }
  return finding;
}

Finding pages_finding() {
  const std::string chosen = chosen_of(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  Finding finding{"huge_pages", FindingLevel::fine,
                  fmt::format("transparent huge pages: {}", chosen.empty() ? "not known" : chosen), "", ""};
  if (chosen == "never") {
    finding.level = FindingLevel::warning;
    finding.cost = "caches and scratch lie on 4 KiB pages, which read at up to half the speed";
    finding.mend = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

std::vector<Finding> limit_findings() {
  std::vector<Finding> findings;
  rlimit limit{};
  Finding space{"limits", FindingLevel::fine, "address space: no limit", "", ""};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    space.level = FindingLevel::warning;
    space.what = "address space: " + gigabytes(static_cast<double>(limit.rlim_cur));
    space.cost = "checkpoints are mapped whole: larger ones cannot be opened";
    space.mend = "ulimit -v unlimited";
  }
  findings.push_back(space);
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    findings.push_back({"limits", FindingLevel::fine,
                        limit.rlim_cur == RLIM_INFINITY
                            ? "locked memory: no limit"
                            : fmt::format("locked memory: {} bytes", limit.rlim_cur),
                        "", ""});
  }
  const std::string group = first_line("/sys/fs/cgroup/memory.max");
  double bytes = 0;
  if (!group.empty() && std::from_chars(group.data(), group.data() + group.size(), bytes).ec == std::errc{}) {
    findings.push_back(
        {"limits", FindingLevel::note, "control group's memory: " + gigabytes(bytes),
         "weights in the page cache count, too: a larger model is read from disk again and again",
         "raise the container's memory limit"});
  }
  return findings;
}

Finding memory_finding(int64_t available) {
  Finding finding{"memory", FindingLevel::fine, gigabytes(static_cast<double>(available)) + " free", "", ""};
  constexpr int64_t kLittle = 2'000'000'000;
  if (available < kLittle) {
    finding.level = FindingLevel::warning;
    finding.cost = "weights do not stay in memory: every token reads the disk";
    finding.mend = "end other programs, or use a smaller model";
  }
  return finding;
}

// The nearest folder that exists is asked.
Finding disk_finding(const std::string& folder) {
  std::error_code failed;
  fs::path at = folder;
  while (!fs::exists(at, failed) && at.has_parent_path() && at != at.parent_path()) at = at.parent_path();
  const fs::space_info space = fs::space(at, failed);
  if (failed) return {"disk", FindingLevel::note, folder + ": free space not known", "", ""};
  Finding finding{"disk", FindingLevel::fine,
                  fmt::format("{} free at {}", gigabytes(static_cast<double>(space.available)), folder), "",
                  ""};
  constexpr uintmax_t kLittle = 10'000'000'000;
  if (space.available < kLittle) {
    finding.level = FindingLevel::note;
    finding.cost = "larger models cannot be fetched";
    finding.mend = "rafter gc shows what can go";
  }
  return finding;
}

Finding gpu_finding() {
  std::error_code failed;
  const bool seen = fs::exists("/dev/nvidiactl", failed) || fs::exists("/dev/kfd", failed);
  if (!seen) return {"gpu", FindingLevel::fine, "none seen", "", ""};
  return {"gpu", FindingLevel::note, "a device node is there; steps are computed on the processor", "", ""};
}

void add_roofs(base::CpuTier tier, DoctorReport& report) {
  const base::Result<Roofs> roofs = measure_roofs_blocking(tier, report.cores);
  if (!roofs.ok()) {
    report.findings.push_back({"roofs", FindingLevel::warning, "not measured: " + roofs.error().what,
                               "speeds cannot be predicted", roofs.error().hint});
    return;
  }
  report.raw_read_gbps = roofs->raw_read_gbps;
  report.peak_tops = roofs->peak_tops;
  report.peak_instruction = roofs->peak_instruction;
  report.load = roofs->load;
  Finding finding{"roofs", FindingLevel::fine,
                  fmt::format("reads {:.1f} GB/s, {} {:.2f} T/s", report.raw_read_gbps,
                              report.peak_instruction, report.peak_tops),
                  "", ""};
  if (report.load.busy) {
    finding.level = FindingLevel::warning;
    finding.cost =
        fmt::format("other programs took {:.0f} % of the cores meanwhile", report.load.others_percent);
    finding.mend = "end them, and look again";
  }
  report.findings.push_back(finding);
}

}  // namespace

const char* finding_level_name(FindingLevel level) {
  switch (level) {
    case FindingLevel::fine:
      return "fine";
    case FindingLevel::note:
      return "note";
    case FindingLevel::warning:
      return "warning";
  }
  return "?";
}

std::string chosen_of(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? ""
             : text.substr(open + 1, close - open - 1);
}

int count_of_list(const std::string& text) {
  constexpr int kMost = 1 << 20;
  std::istringstream ranges(text);
  int count = 0;
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0;
    const char* end = range.data() + range.size();
    const auto [after, error] = std::from_chars(range.data(), end, first);
    if (error != std::errc{} || first < 0 || first > kMost) return 0;
    int last = first;
    if (after != end) {
      const auto [rest, wrong] = std::from_chars(std::min(after + 1, end), end, last);
      if (*after != '-' || wrong != std::errc{} || rest != end || last < first || last > kMost) return 0;
    }
    count += last - first + 1;
  }
  return count;
}

base::Result<DoctorReport> examine_machine(const DoctorOptions& options) {
  RAFTER_ASSIGN(const base::CpuTier tier, base::select_tier());
  DoctorReport report;
  report.processor = base::cpu_model_name();
  report.tier = base::cpu_tier_name(tier);
  report.cores = base::usable_cores();
  report.available_memory_bytes = static_cast<int64_t>(device::available_memory());
  report.findings = {isa_finding(tier), cores_finding(report.cores), nodes_finding(), pages_finding()};
  for (Finding& finding : limit_findings()) report.findings.push_back(std::move(finding));
  report.findings.push_back(memory_finding(report.available_memory_bytes));
  for (const std::string& folder : options.folders) report.findings.push_back(disk_finding(folder));
  if (options.measure) add_roofs(tier, report);
  report.findings.push_back(gpu_finding());
  return report;
}

}  // namespace rafter::lab
