#include "hub/garbage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "hub/cache_layout.h"

namespace rafter::hub {

namespace fs = std::filesystem;

namespace {

using Seconds = std::chrono::seconds;

// The entries of a folder by name; none of one that cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    entries.push_back(at->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Every file and link below a folder; links are not followed.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code unreadable;
    if (at->is_symlink(unreadable) || at->is_regular_file(unreadable)) files.push_back(at->path());
  }
  return files;
}

// Bytes on disk, and whether nothing touched it for `grace`.
struct Age {
  int64_t bytes = 0;
  bool old = false;
};

Age age_of(const fs::path& path, Seconds grace) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  const auto changed = std::max(status.st_mtime, status.st_ctime);
  return {S_ISREG(status.st_mode) ? static_cast<int64_t>(status.st_blocks) * 512 : 0,
          std::time(nullptr) - changed >= grace.count()};
}

std::string commit_in(const fs::path& ref) {
  const auto text = base::read_text_file(ref.string(), 4096);
  std::string commit = text.ok() ? *text : "";
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' '))
    commit.pop_back();
  return commit;
}

// Where below its snapshot each file is.
std::set<std::string> names_in(const fs::path& snapshot) {
  std::set<std::string> names;
  for (const fs::path& file : files_below(snapshot)) names.insert(file.lexically_relative(snapshot).string());
  return names;
}

class Repository {
 public:
  Repository(fs::path folder, Seconds grace) : folder_(std::move(folder)), grace_(grace) {}

  void plan(GarbagePlan& plan) {
    find_old_snapshots(plan);
    find_links(plan);
    find_blobs(plan);
  }

 private:
  void find_old_snapshots(GarbagePlan& plan) {
    std::set<std::string> referenced, kept_names;
    for (const fs::path& ref : files_below(folder_ / "refs")) referenced.insert(commit_in(ref));
    std::vector<fs::path> others;
    for (const fs::path& snapshot : entries_of(folder_ / "snapshots")) {
      if (referenced.contains(snapshot.filename().string())) {
        kept_.push_back(snapshot);
        kept_names.merge(names_in(snapshot));
      } else {
        others.push_back(snapshot);
      }
    }
    for (const fs::path& snapshot : others) {
      const std::set<std::string> names = names_in(snapshot);
      const bool replaced =
          !kept_.empty() && std::includes(kept_names.begin(), kept_names.end(), names.begin(), names.end());
      if (replaced && age_of(snapshot, grace_).old) {
        plan.items.push_back({GarbageKind::old_snapshot, snapshot.string(), 0});
      } else {
        kept_.push_back(snapshot);
      }
    }
  }

  // Blobs that the kept snapshots name; links that lead nowhere.
  void find_links(GarbagePlan& plan) {
    for (const fs::path& snapshot : kept_) {
      for (const fs::path& file : files_below(snapshot)) {
        std::error_code failed;
        if (!fs::is_symlink(file, failed)) continue;
        const fs::path blob = fs::weakly_canonical(file, failed);
        named_.insert(blob.filename().string());
        if (!fs::exists(file, failed) && age_of(file, grace_).old) {
          plan.items.push_back({GarbageKind::broken_link, file.string(), 0});
        }
      }
    }
  }

  void find_blobs(GarbagePlan& plan) {
    for (const fs::path& blob : entries_of(folder_ / "blobs")) {
      const std::string name = blob.filename().string();
      const Age age = age_of(blob, grace_);
      if (named_.contains(name) || !age.old) continue;
      const bool incomplete =
          name.ends_with(".incomplete") || name.ends_with(".pieces") || name.ends_with(".lock");
      plan.items.push_back(
          {incomplete ? GarbageKind::incomplete : GarbageKind::unreferenced_blob, blob.string(), age.bytes});
    }
  }

  fs::path folder_;
  Seconds grace_;
  std::vector<fs::path> kept_;
  std::set<std::string> named_;
};

// The locks of a repository, all held: nothing is being downloaded into it, by this program or another.
struct Quiet {
  std::vector<FileLock> locks;
};

std::optional<Quiet> take_locks(const fs::path& locks) {
  Quiet quiet;
  for (const fs::path& path : entries_of(locks)) {
    if (path.extension() != ".lock") continue;
    auto lock = FileLock::try_lock(path.string(), FileLock::Mode::exclusive);
    if (!lock.ok() || !lock->has_value()) return std::nullopt;
    quiet.locks.push_back(std::move(**lock));
  }
  return quiet;
}

GarbagePlan plan_repository(const std::string& cache, const std::string& name, Seconds grace) {
  GarbagePlan plan;
  const fs::path locks = fs::path(cache) / ".locks" / name;
  const auto quiet = take_locks(locks);
  if (!quiet) {
    plan.skipped.push_back(name);
    return plan;
  }
  Repository(fs::path(cache) / name, grace).plan(plan);
  for (const fs::path& lock : entries_of(locks)) {
    if (age_of(lock, grace).old) plan.items.push_back({GarbageKind::stale_lock, lock.string(), 0});
  }
  return plan;
}

std::vector<std::string> repositories_of(const std::string& cache) {
  std::set<std::string> names;
  for (const fs::path& root : {fs::path(cache), fs::path(cache) / ".locks"}) {
    for (const fs::path& folder : entries_of(root)) {
      std::error_code failed;
      const std::string name = folder.filename().string();
      if (name.starts_with("models--") && fs::is_directory(folder, failed) &&
          !fs::is_symlink(folder, failed)) {
        names.insert(name);
      }
    }
  }
  return {names.begin(), names.end()};
}

void append(GarbagePlan& all, GarbagePlan more) {
  all.items.insert(all.items.end(), more.items.begin(), more.items.end());
  all.skipped.insert(all.skipped.end(), more.skipped.begin(), more.skipped.end());
}

}  // namespace

const char* garbage_kind_name(GarbageKind kind) {
  switch (kind) {
    case GarbageKind::incomplete:
      return "incomplete download";
    case GarbageKind::unreferenced_blob:
      return "unreferenced file";
    case GarbageKind::old_snapshot:
      return "old revision";
    case GarbageKind::stale_lock:
      return "stale lock";
    case GarbageKind::broken_link:
      return "broken link";
  }
  return "";
}

int64_t GarbagePlan::bytes() const {
  int64_t sum = 0;
  for (const Garbage& item : items) sum += item.bytes;
  return sum;
}

GarbagePlan plan_garbage(const std::string& cache, Seconds grace) {
  GarbagePlan plan;
  for (const std::string& name : repositories_of(cache)) append(plan, plan_repository(cache, name, grace));
  return plan;
}

base::Result<GarbagePlan> remove_garbage(const std::string& cache, const GarbagePlan& plan, Seconds grace) {
  std::set<std::string> planned;
  for (const Garbage& item : plan.items) planned.insert(item.path);
  GarbagePlan removed;
  std::optional<base::Error> first;
  for (const std::string& name : repositories_of(cache)) {
    const auto quiet = take_locks(fs::path(cache) / ".locks" / name);
    if (!quiet) {
      removed.skipped.push_back(name);
      continue;
    }
    GarbagePlan fresh;
    Repository(fs::path(cache) / name, grace).plan(fresh);
    for (const fs::path& lock : entries_of(fs::path(cache) / ".locks" / name)) {
      if (age_of(lock, grace).old) fresh.items.push_back({GarbageKind::stale_lock, lock.string(), 0});
    }
    for (const Garbage& item : fresh.items) {
      if (!planned.contains(item.path)) continue;
      std::error_code failed;
      fs::remove_all(item.path, failed);
      if (!failed) {
        removed.items.push_back(item);
      } else if (!first) {
        first = base::Error{base::ErrorCode::io, failed.message(), item.path, ""};
      }
    }
  }
  if (first) return *first;
  return removed;
}

}  // namespace rafter::hub
