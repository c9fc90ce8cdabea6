// Bringing a repository's files into the cache: several connections, large files in pieces, resumed where an
// earlier process stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/cache_layout.h"
#include "hub/repository.h"
#include "hub/settings.h"
#include "hub/wanted_files.h"

namespace rafter::hub {

enum class FileOutcome : uint8_t { present, downloaded };

struct DownloadOptions {
  int connections = 8;
  int64_t piece_bytes = 16 << 20;
  const std::atomic<bool>* stopping = nullptr;  // ends the download in order; what was fetched stays
  // All called on the caller's thread. Any may be empty.
  std::function<void(int64_t done, int64_t total)>
      progress;  // bytes that had to be fetched; ten times a second
  std::function<void(const RemoteFile&, FileOutcome)> finished;
  std::function<void(const RemoteFile&)> waiting;  // another process is fetching it
};

struct Snapshot {
  std::string folder;  // snapshots/COMMIT
  std::string commit;
  std::vector<std::pair<RemoteFile, FileOutcome>> files;
  int64_t bytes_fetched = 0;
};

// Fetches what is missing of `files` and links it into the snapshot; the revision's ref is written last. Two
// processes may do this at once: each file is fetched by one, the other waits for it. Errors: out_of_memory
// (not enough disk space, said before anything is fetched), io, invalid_data (a checksum differs),
// not_found, interrupted.
base::Result<Snapshot> download_files(const HubSettings& settings, const RemoteRepository& repository,
                                      const std::vector<RemoteFile>& files, const std::string& revision,
                                      const DownloadOptions& options);

// The snapshot of `revision` that the cache has, without asking anybody: for work offline. Error: not_found.
base::Result<Snapshot> cached_snapshot(const HubSettings& settings, const std::string& name,
                                       const std::string& revision);

// Error (io) when the file system of `folder` has less than `bytes` and a reserve left.
base::Status check_disk_space(const std::string& folder, int64_t bytes);

}  // namespace rafter::hub
