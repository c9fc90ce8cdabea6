#include "device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace rafter::device {
namespace {

constexpr size_t kHugePage = 2u << 20;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// A cgroup file's number; "max" and a missing file mean no limit.
uint64_t read_limit(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text) || text == "max") return kNoLimit;
  std::istringstream number(text);
  uint64_t value = 0;
  return number >> value ? value : kNoLimit;
}

struct Cgroup {
  uint64_t limit = kNoLimit, used = kNoLimit;
};

// The cgroups that hold this process, the innermost first: any of them may set the limit.
std::vector<Cgroup> cgroups() {
  std::vector<Cgroup> groups;
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    const size_t name = line.find(':'), path = line.find(':', name + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = line.substr(name + 1, path - name - 1);
    const bool is_v1 = controllers.find("memory") != std::string::npos;
    if (!controllers.empty() && !is_v1) continue;
    const std::string root = is_v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    for (std::string group = line.substr(path + 1);; group.resize(group.find_last_of('/'))) {
      if (group == "/") group.clear();
      const std::string folder = root + group;
      groups.push_back(
          is_v1 ? Cgroup{read_limit(folder + "/memory.limit_in_bytes"),
                         read_limit(folder + "/memory.usage_in_bytes")}
                : Cgroup{read_limit(folder + "/memory.max"), read_limit(folder + "/memory.current")});
      if (group.find('/') == std::string::npos) break;
    }
  }
  return groups;
}

// In bytes; `key` with its colon.
uint64_t meminfo(const std::string& key) {
  std::ifstream info("/proc/meminfo");
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with(key)) std::istringstream(line.substr(key.size())) >> kilobytes;
  }
  return kilobytes * 1024;
}

}  // namespace

base::Result<HostMemory> HostMemory::reserve(size_t bytes) {
  HostMemory memory;
  if (bytes == 0) return memory;
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* data =
      ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return base::Error{base::ErrorCode::out_of_memory, fmt::format("cannot reserve {} bytes", rounded),
                       "host memory", "use a smaller --ctx"};
  }
  (void)::madvise(data, rounded, MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = rounded;
  return memory;
}

HostMemory::HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

uint64_t available_memory() {
  uint64_t available = meminfo("MemAvailable:");
  for (const Cgroup& group : cgroups()) {
    if (group.limit == kNoLimit || group.used == kNoLimit) continue;
    available = std::min(available, group.limit > group.used ? group.limit - group.used : 0);
  }
  return available;
}

uint64_t memory_limit() {
  uint64_t limit = meminfo("MemTotal:");
  for (const Cgroup& group : cgroups()) limit = std::min(limit, group.limit);
  return limit;
}

}  // namespace rafter::device
