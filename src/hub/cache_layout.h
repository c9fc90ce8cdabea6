// The Hugging Face cache as its own tools lay it out, and the locks they take:
//
//   models--ORG--NAME/blobs/DIGEST             content
//   models--ORG--NAME/snapshots/COMMIT/PATH    a relative link to its blob
//   models--ORG--NAME/refs/REVISION            the commit a branch or tag stood for
//   .locks/models--ORG--NAME/DIGEST.lock       flock(2)ed while a blob is being made
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace rafter::hub {

class CacheLayout {
 public:
  // `cache`: the hub's cache folder; `name`: "org/name".
  CacheLayout(std::string cache, const std::string& name);

  const std::string& folder() const { return folder_; }
  std::string blob(const std::string& digest) const { return folder_ + "/blobs/" + digest; }
  // What this program has of a blob so far, and the list of its finished pieces.
  std::string partial(const std::string& digest) const { return blob(digest) + ".rafter.incomplete"; }
  std::string pieces(const std::string& digest) const { return blob(digest) + ".rafter.pieces"; }
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
  std::string ref(const std::string& revision) const { return folder_ + "/refs/" + revision; }
  std::string lock(const std::string& digest) const { return locks_ + "/" + digest + ".lock"; }
  const std::string& locks() const { return locks_; }
  // Held (shared) by a download for as long as it runs; gc takes it alone.
  std::string in_use_lock() const { return locks_ + "/rafter.lock"; }

  // Makes the folders of a download. Errors: io.
  base::Status create_folders() const;

  // The commit that refs/REVISION names, or the revision itself if it is a commit with a snapshot; "" when
  // the cache knows neither.
  std::string commit_of(const std::string& revision) const;

  // Links snapshots/COMMIT/PATH to the blob, through a temporary name; replaces what is there.
  base::Status link(const std::string& commit, const std::string& path, const std::string& digest) const;
  base::Status write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::string folder_, locks_;
};

// An flock(2): gone with its process, however that ends.
class FileLock {
 public:
  enum class Mode { shared, exclusive };
  // Nothing when another holds it. Errors: io (the file cannot be made).
  static base::Result<std::optional<FileLock>> try_lock(const std::string& path, Mode mode);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace rafter::hub
