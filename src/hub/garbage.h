// What can go from the cache: incomplete downloads, blobs and snapshots that nothing names, stale locks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::hub {

enum class GarbageKind : uint8_t { incomplete, unreferenced_blob, old_snapshot, stale_lock, broken_link };

const char* garbage_kind_name(GarbageKind kind);  // "incomplete download"

struct Garbage {
  GarbageKind kind = GarbageKind::incomplete;
  std::string path;
  int64_t bytes = 0;
};

struct GarbagePlan {
  std::vector<Garbage> items;        // in the order in which they can be removed
  std::vector<std::string> skipped;  // repositories that a download is using now
  int64_t bytes() const;
};

// Looks through the hub's cache. A snapshot is old when refs exist, none points to it, and a snapshot that
// one points to holds every file of it. Whatever was written less than `grace` ago stays: another program may
// be about to name it.
GarbagePlan plan_garbage(const std::string& cache, std::chrono::seconds grace = std::chrono::hours(1));

// Removes what a fresh look still finds of `plan`, repository by repository, each alone (its lock taken);
// returns what was removed. Errors: io (the first that could not be; the rest is still tried).
base::Result<GarbagePlan> remove_garbage(const std::string& cache, const GarbagePlan& plan,
                                         std::chrono::seconds grace = std::chrono::hours(1));

}  // namespace rafter::hub
