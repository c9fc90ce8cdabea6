// One blob on its way into the cache: a partial file that is filled piece by piece in any order, and a list
// of the finished pieces that a later process goes on from, also after kill -9.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/cache_layout.h"
#include "hub/repository.h"

namespace rafter::hub {

inline constexpr int64_t kPieceBytes = 16 << 20;

class BlobFile {
 public:
  // Opens the partial file of `file` and reads its list; what does not fit the file is started anew. The
  // caller holds the blob's lock. Errors: io.
  static base::Result<BlobFile> open(const CacheLayout& layout, const RemoteFile& file,
                                     int64_t piece_bytes = kPieceBytes);

  BlobFile(BlobFile&& other) noexcept;
  BlobFile& operator=(BlobFile&& other) noexcept = delete;
  BlobFile(const BlobFile&) = delete;
  ~BlobFile();

  struct Piece {
    int64_t index = 0, begin = 0, end = 0;
  };
  std::vector<Piece> missing() const;
  int64_t missing_bytes() const;

  // May be called from several threads for different ranges. Errors: io.
  base::Status write(int64_t offset, std::span<const std::byte> bytes);
  base::Status mark_done(const Piece& piece);
  // The server sends everything from the start: nothing that was there counts.
  base::Status forget_pieces();

  // All pieces are there: checks the content against its digest, syncs it and moves it into its place. Error:
  // invalid_data (the digest differs: the partial file is gone then), io.
  base::Status finish();

 private:
  BlobFile(const CacheLayout& layout, RemoteFile file, int64_t piece_bytes);
  Piece piece(int64_t index) const;
  int64_t piece_count() const;
  base::Status read_list();
  base::Status write_head();

  std::string blob_, partial_, list_;
  RemoteFile file_;
  int64_t piece_bytes_;
  int partial_descriptor_ = -1, list_descriptor_ = -1;
  std::vector<bool> done_;
  std::mutex mutex_;  // of done_ and the list
};

}  // namespace rafter::hub
