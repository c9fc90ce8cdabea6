#include "device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace rafter::device {
namespace {

constexpr size_t kHugePage = 2u << 20;

// A cgroup file's number; "max" and a missing file mean no limit.
uint64_t read_limit(const char* path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text) || text == "max") return std::numeric_limits<uint64_t>::max();
  std::istringstream number(text);
  uint64_t value = 0;
  return number >> value ? value : std::numeric_limits<uint64_t>::max();
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
  uint64_t available = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) {
      std::istringstream(line.substr(13)) >> available;
      available *= 1024;
    }
  }
  const uint64_t limit = read_limit("/sys/fs/cgroup/memory.max");
  const uint64_t used = read_limit("/sys/fs/cgroup/memory.current");
  if (limit != std::numeric_limits<uint64_t>::max() && used != std::numeric_limits<uint64_t>::max()) {
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

}  // namespace rafter::device
