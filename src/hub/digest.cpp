#include "hub/digest.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rafter::hub {

bool is_digest(DigestKind kind, const std::string& hex) {
  if (hex.size() != (kind == DigestKind::sha256 ? 64u : 40u)) return false;
  for (char c : hex) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return true;
}

struct Hasher::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Hasher::Hasher(DigestKind kind, int64_t size) : context_(std::make_unique<Context>()) {
  RAFTER_CHECK(context_->evp != nullptr, "no memory for a digest");
  const EVP_MD* method = kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1();
  RAFTER_CHECK(EVP_DigestInit_ex(context_->evp, method, nullptr) == 1, "no such digest");
  if (kind == DigestKind::git_blob_sha1) {
    const std::string head = fmt::format("blob {}", size);
    EVP_DigestUpdate(context_->evp, head.c_str(), head.size() + 1);
  }
}

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

std::string Hasher::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  EVP_DigestFinal_ex(context_->evp, bytes, &count);
  std::string hex;
  for (unsigned int i = 0; i < count; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

base::Result<std::string> digest_file(const std::string& path, DigestKind kind) {
  const auto failure = [&] { return base::Error{base::ErrorCode::io, std::strerror(errno), path, ""}; };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failure();
  struct stat status{};
  if (::fstat(file, &status) != 0) {
    const base::Error error = failure();
    ::close(file);
    return error;
  }
  Hasher hasher(kind, status.st_size);
  std::vector<std::byte> buffer(1 << 20);
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const base::Error error = failure();
      ::close(file);
      return error;
    }
    if (count == 0) break;
    hasher.add({buffer.data(), static_cast<size_t>(count)});
  }
  ::close(file);
  return hasher.finish();
}

}  // namespace rafter::hub
