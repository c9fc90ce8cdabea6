// Digests that a hub names files by: SHA-256 of large files, and git's blob SHA-1 of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace rafter::hub {

enum class DigestKind : uint8_t { sha256, git_blob_sha1 };

// What a file's content must be. `hex` in lower case: 64 or 40 digits.
struct Digest {
  DigestKind kind = DigestKind::sha256;
  std::string hex;
  bool operator==(const Digest&) const = default;
};

// Whether `hex` is a digest of this kind written in hexadecimal (either case).
bool is_digest(DigestKind kind, const std::string& hex);

class Hasher {
 public:
  // git's SHA-1 starts with "blob SIZE\0"; SHA-256 does not need the size.
  Hasher(DigestKind kind, int64_t size);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string finish();  // lower-case hexadecimal; once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of a whole file. Errors: io.
base::Result<std::string> digest_file(const std::string& path, DigestKind kind);

}  // namespace rafter::hub
