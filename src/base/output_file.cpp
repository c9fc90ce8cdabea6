#include "base/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace rafter::base {
namespace {

Error io_error(const std::string& path, const char* action) {
  return {errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
          fmt::format("cannot {}: {}", action, std::strerror(errno)), path,
          errno == ENOSPC ? "free some disk space" : ""};
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, uint64_t bytes, bool is_private) {
  OutputFile file;
  file.path_ = path;
  file.temporary_ = fmt::format("{}.{}.tmp", path, ::getpid());
  file.descriptor_ =
      ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, is_private ? 0600 : 0644);
  if (file.descriptor_ < 0) return io_error(file.temporary_, "create file");
  // Claims the blocks now, so that a full disk is an error before the work; not every file system can.
  if (bytes > 0 && ::fallocate(file.descriptor_, 0, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EFBIG)) {
    return io_error(file.temporary_, fmt::format("reserve {} bytes", bytes).c_str());
  }
  if (::ftruncate(file.descriptor_, static_cast<off_t>(bytes)) != 0)
    return io_error(file.temporary_, "size file");
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(temporary_, "write file");
    done += static_cast<size_t>(count);
  }
  return {};
}

Status OutputFile::finish_blocking() {
  if (::fsync(descriptor_) != 0) return io_error(temporary_, "sync file");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "rename file");
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename itself is durable once the folder is; a file system that cannot sync folders has no better.
  std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (folder.empty()) folder = ".";
  if (const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
    (void)::fsync(handle);
    ::close(handle);
  }
  return {};
}

}  // namespace rafter::base
