#include "base/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/truncation_guard.h"

namespace rafter::base {
namespace {

Error io_error(const std::string& path, const char* action) {
  ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return Error{code, fmt::format("cannot {}: {}", action, std::strerror(errno)), path, ""};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer before it can be refused.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return io_error(path, "open file");
  MappedFile file;
  file.descriptor_ = descriptor;
  file.path_ = path;
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return io_error(path, "stat file");
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::invalid_data, "not a regular file", path, ""};
  if (info.st_size == 0)
    return Error{ErrorCode::invalid_data, "the file is empty", path, "download it again"};
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return io_error(path, "map file");
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = static_cast<size_t>(info.st_size);
  file.watch_ = watch_mapping(file.data_, file.size_);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(watch_, other.watch_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  unwatch_mapping(watch_);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status MappedFile::check_not_truncated() const {
  struct stat info{};
  if (::fstat(descriptor_, &info) != 0) return io_error(path_, "stat file");
  if (static_cast<uint64_t>(info.st_size) < size_) {
    return Error{ErrorCode::io,
                 fmt::format("the file shrank from {} to {} bytes while in use", size_, info.st_size), path_,
                 "another process rewrote it; load the model again"};
  }
  return check_not_cut();
}

Status MappedFile::check_not_cut() const {
  if (mapping_was_cut(watch_)) {
    return Error{ErrorCode::io, "a part of the file could not be read: it was cut short, or its disk failed",
                 path_, "load the model again"};
  }
  return {};
}

void MappedFile::populate_blocking(const std::atomic<bool>& stopping) const {
#ifdef MADV_POPULATE_READ
  constexpr size_t kPiece =
      64u << 20;  // a multiple of the page size; some 20 ms when it is in the page cache
  for (size_t begin = 0; begin < size_ && !stopping.load(std::memory_order_relaxed); begin += kPiece) {
    const size_t piece = std::min(kPiece, size_ - begin);
    if (::madvise(const_cast<std::byte*>(data_) + begin, piece, MADV_POPULATE_READ) != 0) return;
  }
#else
  (void)stopping;
#endif
}

Result<std::string> read_text_file(const std::string& path, uint64_t limit) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return io_error(path, "open file");
  std::string text;
  // A regular file says its size before any of it is read; the limit while reading is for the others.
  struct stat info{};
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
    if (static_cast<uint64_t>(info.st_size) > limit) {
      ::close(descriptor);
      return Error{
          ErrorCode::invalid_data,
          fmt::format("the file has {} bytes, more than the {} that it may have", info.st_size, limit), path,
          ""};
    }
    text.reserve(static_cast<size_t>(info.st_size));
  }
  char buffer[1 << 16];
  for (;;) {
    ssize_t count = ::read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Error error = io_error(path, "read file");
      ::close(descriptor);
      return error;
    }
    if (count == 0) break;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > limit) {
      ::close(descriptor);
      return Error{ErrorCode::invalid_data,
                   fmt::format("the file has more than the {} bytes that it may have", limit), path, ""};
    }
  }
  ::close(descriptor);
  return text;
}

Status write_file_synced(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return io_error(temporary, "create file");
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Error error = io_error(temporary, "write file");
      ::close(descriptor);
      ::unlink(temporary.c_str());
      return error;
    }
    done += static_cast<size_t>(count);
  }
  bool synced = ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (!synced || ::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = io_error(path, "finish file");
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

}  // namespace rafter::base
