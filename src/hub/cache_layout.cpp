#include "hub/cache_layout.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"

namespace rafter::hub {

namespace fs = std::filesystem;

namespace {

base::Error io_error(const std::string& path) {
  const int code = errno;
  const char* hint = code == ENOSPC ? "free some disk space and run it again: it goes on where it stopped"
                     : code == EACCES || code == EROFS ? "set HF_HUB_CACHE to a folder that you may write to"
                                                       : "";
  return {base::ErrorCode::io, std::strerror(code), path, hint};
}

base::Status make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return {};
  errno = failed.value();
  return io_error(folder.string());
}

std::string repository_folder(const std::string& name) {
  std::string folder = "models--" + name;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  return folder;
}

}  // namespace

CacheLayout::CacheLayout(std::string cache, const std::string& name)
    : folder_(cache + "/" + repository_folder(name)), locks_(cache + "/.locks/" + repository_folder(name)) {}

base::Status CacheLayout::create_folders() const {
  for (const std::string& folder : {folder_ + "/blobs", folder_ + "/snapshots", folder_ + "/refs", locks_}) {
    RAFTER_TRY(make_folder(folder));
  }
  return {};
}

std::string CacheLayout::commit_of(const std::string& revision) const {
  std::error_code failed;
  if (auto text = base::read_text_file(ref(revision), 4096); text.ok()) {
    std::string commit = *text;
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' '))
      commit.pop_back();
    const bool plain = !commit.empty() && commit.find('/') == std::string::npos && commit.front() != '.';
    if (plain && fs::is_directory(snapshot(commit), failed)) return commit;
  }
  return fs::is_directory(snapshot(revision), failed) && revision.find('/') == std::string::npos ? revision
                                                                                                 : "";
}

base::Status CacheLayout::link(const std::string& commit, const std::string& path,
                               const std::string& digest) const {
  const fs::path target = fs::path(snapshot(commit)) / path;
  RAFTER_TRY(make_folder(target.parent_path()));
  std::string to = "../../";
  for (char c : path) {
    if (c == '/') to += "../";
  }
  to += "blobs/" + digest;
  const std::string temporary = fmt::format("{}.{}.link", target.string(), ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(to.c_str(), temporary.c_str()) != 0) return io_error(temporary);
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    const base::Error error = io_error(target.string());
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

base::Status CacheLayout::write_ref(const std::string& revision, const std::string& commit) const {
  const std::string path = ref(revision);
  RAFTER_TRY(make_folder(fs::path(path).parent_path()));
  return base::write_file_synced(path, std::as_bytes(std::span(commit)));
}

base::Result<std::optional<FileLock>> FileLock::try_lock(const std::string& path, Mode mode) {
  const int kind = mode == Mode::shared ? LOCK_SH : LOCK_EX;
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (descriptor < 0) return io_error(path);
    FileLock lock(descriptor);
    int locked = 0;
    do {
      locked = ::flock(descriptor, kind | LOCK_NB);
    } while (locked != 0 && errno == EINTR);
    if (locked != 0) {
      if (errno == EWOULDBLOCK) return std::optional<FileLock>();
      return io_error(path);
    }
    // Another program may have removed the file between the opening and the lock: then this locks nothing.
    struct stat opened{}, named{};
    if (::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      return std::optional<FileLock>(std::move(lock));
    }
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace rafter::hub
