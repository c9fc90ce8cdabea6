#include "hub/blob_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"

namespace rafter::hub {
namespace {

base::Error io_error(const std::string& path) {
  const int code = errno;
  return {base::ErrorCode::io, std::strerror(code), path,
          code == ENOSPC ? "free some disk space and run it again: it goes on where it stopped" : ""};
}

base::Status write_all(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path);
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace

BlobFile::BlobFile(const CacheLayout& layout, RemoteFile file, int64_t piece_bytes)
    : blob_(layout.blob(file.digest.hex)),
      partial_(layout.partial(file.digest.hex)),
      list_(layout.pieces(file.digest.hex)),
      file_(std::move(file)),
      piece_bytes_(piece_bytes),
      done_(static_cast<size_t>(piece_count()), false) {}

BlobFile::BlobFile(BlobFile&& other) noexcept
    : blob_(std::move(other.blob_)),
      partial_(std::move(other.partial_)),
      list_(std::move(other.list_)),
      file_(std::move(other.file_)),
      piece_bytes_(other.piece_bytes_),
      partial_descriptor_(std::exchange(other.partial_descriptor_, -1)),
      list_descriptor_(std::exchange(other.list_descriptor_, -1)),
      done_(std::move(other.done_)) {}

BlobFile::~BlobFile() {
  if (partial_descriptor_ >= 0) ::close(partial_descriptor_);
  if (list_descriptor_ >= 0) ::close(list_descriptor_);
}

int64_t BlobFile::piece_count() const {
  return std::max<int64_t>((file_.size + piece_bytes_ - 1) / piece_bytes_, 1);
}

BlobFile::Piece BlobFile::piece(int64_t index) const {
  return {index, index * piece_bytes_, std::min((index + 1) * piece_bytes_, file_.size)};
}

base::Result<BlobFile> BlobFile::open(const CacheLayout& layout, const RemoteFile& file,
                                      int64_t piece_bytes) {
  BlobFile blob(layout, file, piece_bytes);
  blob.partial_descriptor_ = ::open(blob.partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (blob.partial_descriptor_ < 0) return io_error(blob.partial_);
  blob.list_descriptor_ =
      ::open(blob.list_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (blob.list_descriptor_ < 0) return io_error(blob.list_);
  RAFTER_TRY(blob.read_list());
  return blob;
}

// The list's first line says what it is a list of; each further line is a finished piece. A line that a crash
// cut short has no newline and does not count.
base::Status BlobFile::read_list() {
  struct stat status{};
  if (::fstat(partial_descriptor_, &status) != 0) return io_error(partial_);
  const auto text = base::read_text_file(list_, 64 << 20);
  const std::string head = fmt::format("{} bytes in pieces of {}", file_.size, piece_bytes_);
  std::istringstream lines(text.ok() ? *text : "");
  std::string line;
  if (!std::getline(lines, line) || lines.eof() || line != head) return forget_pieces();
  while (std::getline(lines, line) && !lines.eof()) {
    int64_t index = -1;
    if (std::istringstream(line) >> index && index >= 0 && index < piece_count() &&
        piece(index).end <= status.st_size) {
      done_[static_cast<size_t>(index)] = true;
    }
  }
  // A cut line must not run into the next one.
  if (text.ok() && !text->empty() && text->back() != '\n') return write_all(list_descriptor_, "\n", list_);
  return {};
}

base::Status BlobFile::write_head() {
  return write_all(list_descriptor_, fmt::format("{} bytes in pieces of {}\n", file_.size, piece_bytes_),
                   list_);
}

base::Status BlobFile::forget_pieces() {
  const std::lock_guard lock(mutex_);
  std::fill(done_.begin(), done_.end(), false);
  if (::ftruncate(list_descriptor_, 0) != 0) return io_error(list_);
  if (::ftruncate(partial_descriptor_, 0) != 0) return io_error(partial_);
  return write_head();
}

std::vector<BlobFile::Piece> BlobFile::missing() const {
  std::vector<Piece> pieces;
  for (int64_t index = 0; index < piece_count(); ++index) {
    if (!done_[static_cast<size_t>(index)]) pieces.push_back(piece(index));
  }
  return pieces;
}

int64_t BlobFile::missing_bytes() const {
  int64_t bytes = 0;
  for (const Piece& piece : missing()) bytes += piece.end - piece.begin;
  return bytes;
}

base::Status BlobFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(partial_descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(partial_);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return {};
}

base::Status BlobFile::mark_done(const Piece& piece) {
  const std::lock_guard lock(mutex_);
  done_[static_cast<size_t>(piece.index)] = true;
  return write_all(list_descriptor_, fmt::format("{}\n", piece.index), list_);
}

base::Status BlobFile::finish() {
  RAFTER_ASSIGN(const std::string found, digest_file(partial_, file_.digest.kind));
  struct stat status{};
  if (::fstat(partial_descriptor_, &status) != 0) return io_error(partial_);
  if (found != file_.digest.hex || status.st_size != file_.size) {
    ::unlink(partial_.c_str());
    ::unlink(list_.c_str());
    return base::Error{base::ErrorCode::invalid_data,
                       fmt::format("the content's checksum is {} and should be {}", found, file_.digest.hex),
                       file_.path, "the server or the network changed it; run it again"};
  }
  if (::fsync(partial_descriptor_) != 0) return io_error(partial_);
  if (::rename(partial_.c_str(), blob_.c_str()) != 0) return io_error(blob_);
  ::unlink(list_.c_str());
  return {};
}

}  // namespace rafter::hub
