#include "hub/url_download.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "hub/cache_layout.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "hub/http.h"
#include "hub/repository.h"

namespace rafter::hub {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorCode;

namespace {

Error io_error(const std::string& path) {
  const int code = errno;
  return {ErrorCode::io, std::strerror(code), path,
          code == ENOSPC ? "free some disk space and run it again: it goes on where it stopped" : ""};
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
      plain += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

base::Status check_sha256(const std::string& path, const std::string& wanted) {
  if (wanted.empty()) return {};
  RAFTER_ASSIGN(const std::string found, digest_file(path, DigestKind::sha256));
  if (found == wanted) return {};
  return Error{ErrorCode::invalid_data,
               fmt::format("the content's checksum is {} and should be {}", found, wanted), path,
               "delete the file to fetch it anew, or check --sha256"};
}

// The partial file, and beside it what the server called the version it belongs to.
class PartFile {
 public:
  static base::Result<PartFile> open(const std::string& path) {
    PartFile part(path);
    part.descriptor_ = ::open(part.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (part.descriptor_ < 0) return io_error(part.path_);
    struct stat status{};
    if (::fstat(part.descriptor_, &status) != 0) return io_error(part.path_);
    if (auto tag = base::read_text_file(part.tag_path_, 4096); tag.ok()) part.tag_ = *tag;
    part.size_ = part.tag_.empty() ? 0 : status.st_size;  // of an unknown version: nothing to go on with
    return part;
  }
  PartFile(PartFile&& other) noexcept
      : path_(std::move(other.path_)),
        tag_path_(std::move(other.tag_path_)),
        tag_(std::move(other.tag_)),
        size_(other.size_),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~PartFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int64_t size() const { return size_; }
  const std::string& tag() const { return tag_; }
  const std::string& path() const { return path_; }

  base::Status start_anew(const std::string& tag) {
    size_ = 0;
    tag_ = tag;
    if (::ftruncate(descriptor_, 0) != 0) return io_error(path_);
    if (tag.empty()) {
      ::unlink(tag_path_.c_str());
      return {};
    }
    return base::write_file_synced(tag_path_, std::as_bytes(std::span(tag)));
  }

  base::Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), size_);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return io_error(path_);
      bytes = bytes.subspan(static_cast<size_t>(count));
      size_ += count;
    }
    return {};
  }

  base::Status move_to(const std::string& target) {
    if (::fsync(descriptor_) != 0 || ::rename(path_.c_str(), target.c_str()) != 0) return io_error(target);
    ::unlink(tag_path_.c_str());
    return {};
  }

 private:
  explicit PartFile(const std::string& target) : path_(target + ".part"), tag_path_(target + ".part.etag") {}

  std::string path_, tag_path_, tag_;
  int64_t size_ = 0;
  int descriptor_ = -1;
};

// A tag that If-Range may hold: a strong entity tag, else the date of change.
std::string version_tag(const HttpResponse& response) {
  const std::string etag = response.header("etag");
  return !etag.empty() && !etag.starts_with("W/") ? etag : response.header("last-modified");
}

base::Status fetch(const HubSettings& settings, const std::string& url, const UrlDownloadOptions& options,
                   PartFile& part) {
  HttpClient client(options.stopping);
  HttpRequest request;
  request.url = url;
  // A token is for the hub alone.
  const UrlParts here = split_url(url), hub = split_url(settings.endpoint);
  if (here.host == hub.host && here.port == hub.port && here.scheme == hub.scheme)
    request.token = settings.token;
  int64_t total = 0;
  bool begun = false;
  std::optional<Error> broken;
  const auto sink = [&](const HttpResponse& response, std::span<const std::byte> bytes) {
    if (!begun) {
      begun = true;
      const auto range = response.content_range();
      const bool goes_on = response.status == 206 && range && range->begin == part.size();
      total = goes_on && range->total >= 0 ? range->total : response.content_length().value_or(0);
      base::Status status;
      if (response.status == 206 && !goes_on) {
        status = Error{ErrorCode::invalid_data, "the server answers with another range than was asked for",
                       url, ""};
      } else if (!goes_on) {
        status = part.start_anew(version_tag(response));
        if (status.ok()) status = check_disk_space(fs::path(part.path()).parent_path().string(), total);
      }
      if (!status.ok()) {
        broken = status.error();
        return false;
      }
    }
    if (base::Status status = part.append(bytes); !status.ok()) {
      broken = status.error();
      return false;
    }
    if (options.progress) options.progress(part.size(), total);
    return true;
  };
  const auto before_try = [&](HttpRequest& r) {
    begun = false;
    r.range_begin.reset();
    r.if_range.clear();
    if (part.size() > 0) r.range_begin = part.size(), r.if_range = part.tag();
  };
  for (int attempt = 0;; ++attempt) {
    const int64_t before = part.size();
    const auto response =
        exchange_with_retries(client, settings, request, sink, before_try, options.stopping);
    if (broken) return *broken;
    if (!response.ok()) return response.error();
    if (response->status == 416 && attempt == 0) {  // what is there is longer than the file
      RAFTER_TRY(part.start_anew(""));
      continue;
    }
    if (response->status != 200 && response->status != 206) return status_error(*response, settings, url);
    if (!begun) RAFTER_TRY(part.start_anew(""));  // an empty file
    if (part.size() >= total) return {};
    if (part.size() == before || attempt >= settings.retries) {
      return Error{ErrorCode::io,
                   fmt::format("the server ends the file after {} of {} bytes", part.size(), total), url,
                   "run it again: it goes on where it stopped"};
    }
  }
}

}  // namespace

base::Result<std::string> file_name_of(const std::string& url) {
  const UrlParts parts = split_url(url);
  const std::string name = unescaped(parts.path.substr(parts.path.rfind('/') + 1));
  if (!parts.host.empty() && is_safe_path(name) && name.find('/') == std::string::npos && name.front() != '.')
    return name;
  return Error{ErrorCode::invalid_argument, "the URL names no file", url,
               "it ends in a file's name, as in …/model.gguf"};
}

base::Result<UrlFile> download_url(const HubSettings& settings, const std::string& url,
                                   const std::string& folder, const UrlDownloadOptions& options) {
  RAFTER_ASSIGN(const std::string name, file_name_of(url));
  if (!options.sha256.empty() && !is_digest(DigestKind::sha256, options.sha256)) {
    return Error{ErrorCode::invalid_argument, "not a SHA-256 checksum: it has 64 hexadecimal digits",
                 "--sha256", ""};
  }
  std::string wanted = options.sha256;
  for (char& c : wanted) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  std::error_code failed;
  fs::create_directories(folder, failed);
  UrlFile file;
  file.path = folder + "/" + name;
  std::optional<FileLock> lock;
  while (!lock) {
    RAFTER_ASSIGN(lock, FileLock::try_lock(file.path + ".lock", FileLock::Mode::exclusive));
    if (lock) break;
    if (options.stopping != nullptr && options.stopping->load())
      return Error{ErrorCode::interrupted, "interrupted", url, ""};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (fs::is_regular_file(file.path, failed)) {
    file.was_present = true;
  } else {
    RAFTER_ASSIGN(PartFile part, PartFile::open(file.path));
    RAFTER_TRY(fetch(settings, url, options, part));
    if (base::Status status = check_sha256(part.path(), wanted); !status.ok()) {
      (void)part.start_anew("");
      ::unlink(part.path().c_str());
      base::Error error = status.error();
      error.where = url;
      error.hint = "the server or the network changed it, or --sha256 is of another file";
      return error;
    }
    RAFTER_TRY(part.move_to(file.path));
  }
  if (file.was_present) RAFTER_TRY(check_sha256(file.path, wanted));
  ::unlink((file.path + ".lock").c_str());
  file.bytes = static_cast<int64_t>(fs::file_size(file.path, failed));
  return file;
}

}  // namespace rafter::hub
