#include "cache/sequence_file.h"

#include <cstring>
#include <string_view>

namespace rafter::cache {
namespace {

constexpr std::string_view kMagic = "RAFTERKV";
constexpr uint32_t kVersion = 1;
constexpr size_t kMostHeadBytes = 256u << 20;
constexpr size_t kBufferBytes = 1u << 20;

// The fields in front of the texts.
struct FixedHead {
  char magic[8];
  uint32_t version, head_bytes;
  uint64_t body_bytes, body_checksum, model;
};
static_assert(sizeof(FixedHead) == 40);

template <typename T>
void put(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(value));
}

void put_array(std::vector<std::byte>& to, const void* data, size_t count, size_t element) {
  put(to, static_cast<uint64_t>(count));
  const auto* bytes = static_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + count * element);
}

uint64_t checksum(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

base::Error damaged(const std::string& path, std::string what) {
  return {base::ErrorCode::invalid_data, std::move(what), path, "delete the file"};
}

// Texts and tokens behind the fixed fields; false if they do not fill the head exactly.
bool read_head(std::span<const std::byte> bytes, SequenceHead& head) {
  const auto take_array = [&](size_t element) -> std::span<const std::byte> {
    uint64_t count = 0;
    if (bytes.size() < sizeof(count)) return {};
    std::memcpy(&count, bytes.data(), sizeof(count));
    if (count > (bytes.size() - sizeof(count)) / element) return {};
    const auto array = bytes.subspan(sizeof(count), count * element);
    bytes = bytes.subspan(sizeof(count) + array.size());
    return array;
  };
  const auto text_of = [](std::span<const std::byte> array) {
    return std::string(reinterpret_cast<const char*>(array.data()), array.size());
  };
  head.origin.mode = text_of(take_array(1));
  head.space = text_of(take_array(1));
  const auto tokens = take_array(sizeof(int32_t));
  head.tokens.resize(tokens.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(head.tokens.data(), tokens.data(), tokens.size());
  const auto reentries = take_array(sizeof(int64_t));
  head.reentries.resize(reentries.size() / sizeof(int64_t));
  if (!reentries.empty()) std::memcpy(head.reentries.data(), reentries.data(), reentries.size());
  return bytes.empty() && !tokens.empty();
}

}  // namespace

base::Result<SequenceWriter> SequenceWriter::create(const std::string& path, const SequenceHead& head) {
  RAFTER_CHECK(!head.tokens.empty(), "a sequence without tokens");
  SequenceWriter writer;
  FixedHead fixed = {};
  std::memcpy(fixed.magic, kMagic.data(), kMagic.size());
  fixed.version = kVersion;
  fixed.model = head.origin.model;
  put(writer.head_, fixed);
  put_array(writer.head_, head.origin.mode.data(), head.origin.mode.size(), 1);
  put_array(writer.head_, head.space.data(), head.space.size(), 1);
  put_array(writer.head_, head.tokens.data(), head.tokens.size(), sizeof(int32_t));
  put_array(writer.head_, head.reentries.data(), head.reentries.size(), sizeof(int64_t));
  RAFTER_ASSIGN(writer.file_, base::OutputFile::create(path, 0, /*is_private=*/true));
  writer.hash_.reset(XXH64_createState());
  XXH64_reset(writer.hash_.get(), 0);
  writer.buffer_.reserve(kBufferBytes);
  return writer;
}

void SequenceWriter::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void SequenceWriter::flush() {
  XXH64_update(hash_.get(), buffer_.data(), buffer_.size());
  const uint64_t offset = head_.size() + sizeof(uint64_t) + body_bytes_;
  if (status_.ok()) status_ = file_.write_at(offset, buffer_);
  body_bytes_ += buffer_.size();
  buffer_.clear();
}

base::Status SequenceWriter::finish_blocking() {
  flush();
  RAFTER_TRY(status_);
  FixedHead fixed;
  std::memcpy(&fixed, head_.data(), sizeof(fixed));
  fixed.head_bytes = static_cast<uint32_t>(head_.size() + sizeof(uint64_t));
  fixed.body_bytes = body_bytes_;
  fixed.body_checksum = XXH64_digest(hash_.get());
  std::memcpy(head_.data(), &fixed, sizeof(fixed));
  put(head_, checksum(head_));
  RAFTER_TRY(file_.write_at(0, head_));
  return file_.finish_blocking();
}

int64_t SequenceBody::number() {
  int64_t value = 0;
  if (const std::byte* at = take(sizeof(value))) std::memcpy(&value, at, sizeof(value));
  return value;
}

int64_t SequenceBody::count(int64_t least_bytes) {
  const int64_t value = number();
  const auto left = static_cast<int64_t>(bytes_.size() - at_);
  if (value >= 0 && value <= left / least_bytes) return value;
  failed_ = true;
  return 0;
}

const std::byte* SequenceBody::take(int64_t bytes) {
  if (failed_ || bytes < 0 || static_cast<uint64_t>(bytes) > bytes_.size() - at_) {
    failed_ = true;
    return nullptr;
  }
  const std::byte* at = bytes_.data() + at_;
  at_ += static_cast<size_t>(bytes);
  return at;
}

base::Result<SequenceFile> SequenceFile::open(const std::string& path) {
  SequenceFile opened;
  RAFTER_ASSIGN(opened.file_, base::MappedFile::open(path));
  const std::span<const std::byte> bytes = opened.file_.bytes();
  FixedHead fixed;
  if (bytes.size() < sizeof(fixed)) return damaged(path, "too short for a saved sequence");
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (std::string_view(fixed.magic, sizeof(fixed.magic)) != kMagic)
    return damaged(path, "not a saved sequence");
  if (fixed.version != kVersion) {
    return base::Error{
        base::ErrorCode::unsupported,
        fmt::format("a saved sequence of version {}; this program reads version {}", fixed.version, kVersion),
        path, "delete the file"};
  }
  const size_t head_bytes = fixed.head_bytes;
  if (head_bytes < sizeof(fixed) + sizeof(uint64_t) || head_bytes > kMostHeadBytes ||
      head_bytes > bytes.size())
    return damaged(path, fmt::format("a head of {} bytes in a file of {}", head_bytes, bytes.size()));
  const auto head = bytes.first(head_bytes - sizeof(uint64_t));
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + head.size(), sizeof(stored));
  if (stored != checksum(head)) return damaged(path, "the head's checksum does not match: it is damaged");
  if (fixed.body_bytes != bytes.size() - head_bytes) {
    return damaged(path, fmt::format("{} bytes follow the head and it says {}: cut short or written over",
                                     bytes.size() - head_bytes, fixed.body_bytes));
  }
  if (!read_head(head.subspan(sizeof(fixed)), opened.head_)) return damaged(path, "a malformed head");
  opened.head_.origin.model = fixed.model;
  opened.head_bytes_ = head_bytes;
  opened.body_checksum_ = fixed.body_checksum;
  return opened;
}

base::Result<SequenceBody> SequenceFile::checked_body() const {
  const auto body = file_.bytes().subspan(head_bytes_);
  if (checksum(body) != body_checksum_)
    return damaged(path(), "the body's checksum does not match: it is damaged");
  RAFTER_TRY(file_.check_not_truncated());
  return SequenceBody(body);
}

base::Status SequenceFile::check_origin(const SequenceOrigin& origin) const {
  const auto differs = [&](std::string what, std::string hint) {
    return base::Error{base::ErrorCode::invalid_argument, std::move(what), path(), std::move(hint)};
  };
  if (head_.origin.model != origin.model) {
    return differs(fmt::format("was saved from another model or another back end (fingerprint {:016x}, not "
                               "{:016x})",
                               head_.origin.model, origin.model),
                   "load it with the checkpoint and the options that it was saved with");
  }
  if (head_.origin.mode != origin.mode) {
    return differs(
        fmt::format("holds keys and values as {} and this cache as {}", head_.origin.mode, origin.mode),
        "use the same --kv-quant");
  }
  return {};
}

base::Status SequenceFile::check_unchanged() const { return file_.check_not_truncated(); }

base::Error SequenceFile::invalid(std::string what) const { return damaged(path(), std::move(what)); }

}  // namespace rafter::cache
