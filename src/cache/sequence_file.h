// A sequence in a file: what its caches hold, and whose it is.
//
//   head   "RAFTERKV", then little-endian: u32 version · u32 bytes of the head · u64 bytes of the body ·
//          u64 xxh64 of the body · u64 model · text mode · text space · tokens (i32) · re-entries (i64) ·
//          u64 xxh64 of the head up to here; texts, tokens and re-entries as u64 count, then the elements
//   body   what KvCache::save() and RecurrentStore::save() write, in this order: numbers of 64 bits, blocks
//          and states as they lie in memory
//
// The head has a checksum of its own, so that a folder of files can be listed without reading the bodies. A
// file appears when it is complete and synced, or not at all. Whatever a file holds, reading it is safe:
// what is not as this program writes it is an error that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <xxhash.h>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/result.h"

namespace rafter::cache {

// Whose sequence it is: only what agrees in all of it can be read back.
struct SequenceOrigin {
  uint64_t model = 0;  // a fingerprint of the checkpoint and of what computes it
  std::string mode;    // of keys and values, for people: "8 bit"

  bool operator==(const SequenceOrigin&) const = default;
};

struct SequenceHead {
  SequenceOrigin origin;
  std::string space;            // sequences of other spaces are strangers (sched/prefix_tree.h)
  std::vector<int32_t> tokens;  // whose rows the caches hold
  // Lengths that the sequence can be entered at, in no order; none: at every one.
  std::vector<int64_t> reentries = {};
};

// Appends the body; the file is there once finish_blocking() says so.
class SequenceWriter {
 public:
  // Errors: io, not_found (the folder).
  static base::Result<SequenceWriter> create(const std::string& path, const SequenceHead& head);

  void number(int64_t value) { append({reinterpret_cast<const std::byte*>(&value), sizeof(value)}); }
  void append(std::span<const std::byte> bytes);
  // Errors: io, also of what was appended before.
  base::Status finish_blocking();

 private:
  void flush();

  base::OutputFile file_;
  std::vector<std::byte> head_;    // up to the sizes and checksums, which are known at the end
  std::vector<std::byte> buffer_;  // of the body, not written yet
  std::unique_ptr<XXH64_state_t, XXH_errorcode (*)(XXH64_state_t*)> hash_{nullptr, XXH64_freeState};
  uint64_t body_bytes_ = 0;
  base::Status status_;  // the first error
};

// Reads a body front to back. After the first read beyond its end everything reads as zero; the caller asks
// at the end, or before it believes a count.
class SequenceBody {
 public:
  explicit SequenceBody(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int64_t number();
  // A number of things that take at least `least_bytes` each: no more than the rest can hold.
  int64_t count(int64_t least_bytes);
  // Null if there are not so many.
  const std::byte* take(int64_t bytes);
  bool failed() const { return failed_; }
  bool at_end() const { return !failed_ && at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

class SequenceFile {
 public:
  // Maps the file and checks its head. Errors: not_found, io, invalid_data (no such file, damaged, cut
  // short), unsupported (another version).
  static base::Result<SequenceFile> open(const std::string& path);

  const SequenceHead& head() const { return head_; }
  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  // Reads all of the body once. Errors: invalid_data.
  base::Result<SequenceBody> checked_body() const;
  // Error (invalid_argument) that names what differs.
  base::Status check_origin(const SequenceOrigin& origin) const;
  // Error (invalid_data): the file is not as it was when it was checked.
  base::Status check_unchanged() const;
  // "the file says …", for what is wrong with its body.
  base::Error invalid(std::string what) const;

 private:
  base::MappedFile file_;
  SequenceHead head_;
  size_t head_bytes_ = 0;
  uint64_t body_checksum_ = 0;
};

}  // namespace rafter::cache
