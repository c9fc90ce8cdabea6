#include "sched/saved_prefixes.h"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "sched/prefix_tree.h"

namespace rafter::sched {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorCode;

namespace {

constexpr const char* kExtension = ".kv";

// What a run that was killed left half written is deleted once no run can be writing it any more.
constexpr int64_t kStaleNanoseconds = int64_t{3600} * 1'000'000'000;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return nanoseconds(time);
}

// The same conversation has the same name.
std::string name_of(const cache::SequenceOrigin& origin, const std::string& space,
                    std::span<const int32_t> tokens) {
  uint64_t hash = XXH64(origin.mode.data(), origin.mode.size(), 0);
  hash = XXH64(space.data(), space.size(), hash);
  hash = XXH64(tokens.data(), tokens.size_bytes(), hash);
  return fmt::format("{:016x}-{:016x}{}", origin.model, hash, kExtension);
}

// Of what a file shares with a prompt, what its sequence can be entered at.
int64_t reentry(const cache::SequenceHead& head, int64_t shared) {
  if (head.reentries.empty()) return shared;
  int64_t best = 0;
  for (const int64_t position : head.reentries) {
    if (position <= shared) best = std::max(best, position);
  }
  return best;
}

}  // namespace

base::Result<SavedPrefixes> SavedPrefixes::open(decode::StepEngine& engine, Options options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (!fs::is_directory(options.folder, error) || ::access(options.folder.c_str(), W_OK | X_OK) != 0) {
    return Error{ErrorCode::io, "is no folder that can be written to", options.folder,
                 "name another --prompt-cache-dir"};
  }
  SavedPrefixes saved(engine, std::move(options));
  fs::directory_iterator entries(saved.options_.folder, error), end;
  for (; !error && entries != end; entries.increment(error)) saved.list(entries->path().string());
  if (error) return Error{ErrorCode::io, "cannot be listed: " + error.message(), saved.options_.folder, ""};
  saved.trim("");
  return saved;
}

void SavedPrefixes::list(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  File file = {path, info.st_size, nanoseconds(info.st_mtim), false, {}};
  const fs::path name = path;
  if (name.extension() == ".tmp" && name.stem().stem().extension() == kExtension) {
    if (file.used < now() - kStaleNanoseconds) ::unlink(path.c_str());
    return;
  }
  if (name.extension() != kExtension) return;
  if (auto opened = cache::SequenceFile::open(path); opened.ok()) {
    file.is_ours = opened->check_origin(engine_->sequence_origin()).ok();
    if (file.is_ours) file.head = opened->head();
  } else if (opened.error().code == ErrorCode::invalid_data) {
    log(fmt::format("{}: deleted", opened.error().message()));
    ::unlink(path.c_str());
    return;
  }
  files_.push_back(std::move(file));
}

SavedPrefixes::Match SavedPrefixes::find(const std::string& space, std::span<const int32_t> tokens,
                                         int64_t least) const {
  Match best;
  for (const File& file : files_) {
    if (!file.is_ours || file.head.space != space) continue;
    const int64_t length = reentry(file.head, common_prefix(file.head.tokens, tokens));
    if (length >= least && length > best.tokens) best = {file.path, length};
  }
  return best;
}

base::Result<engine::Engine::LoadedSequence> SavedPrefixes::load_blocking(const std::string& path) {
  const auto index = static_cast<size_t>(
      std::find_if(files_.begin(), files_.end(), [&](const File& f) { return f.path == path; }) -
      files_.begin());
  RAFTER_CHECK(index < files_.size(), "{}", path);
  auto loaded = engine_->load_sequence_blocking(path);
  if (loaded.ok()) {
    files_[index].used = now();
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return loaded;
  }
  const ErrorCode code = loaded.error().code;
  if (code == ErrorCode::out_of_memory) return loaded;
  log(fmt::format("a saved prefix is not used: {}", loaded.error().message()));
  if (code == ErrorCode::invalid_data) {
    remove(index);
  } else {
    files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return loaded;
}

void SavedPrefixes::save_blocking(const std::string& space, std::span<const int32_t> tokens,
                                  int32_t sequence) {
  const int64_t estimate = engine_->bytes_held(std::span(&sequence, 1));
  if (estimate > options_.bytes) {
    return log(
        fmt::format("a prefix of {} tokens is not saved: it takes {} bytes and --prompt-cache-disk "
                    "allows {}",
                    tokens.size(), estimate, options_.bytes));
  }
  const std::string path =
      (fs::path(options_.folder) / name_of(engine_->sequence_origin(), space, tokens)).string();
  const base::Status status = engine_->save_sequence_blocking(sequence, tokens, space, path);
  if (!status.ok()) return log(fmt::format("a prefix is not saved: {}", status.error().message()));
  remove_covered(space, tokens, sequence);
  std::erase_if(files_, [&](const File& file) { return file.path == path; });
  list(path);
  trim(path);
}

void SavedPrefixes::remove(size_t index) {
  ::unlink(files_[index].path.c_str());
  files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(index));
}

// Files of what this sequence holds too.
void SavedPrefixes::remove_covered(const std::string& space, std::span<const int32_t> tokens,
                                   int32_t sequence) {
  for (size_t i = files_.size(); i-- > 0;) {
    const cache::SequenceHead& head = files_[i].head;
    const auto length = static_cast<int64_t>(head.tokens.size());
    if (files_[i].is_ours && head.space == space && head.tokens.size() < tokens.size() &&
        common_prefix(head.tokens, tokens) == length && engine_->reentry_position(sequence, length) == length)
      remove(i);
  }
}

void SavedPrefixes::trim(const std::string& spared) {
  int64_t total = 0;
  for (const File& file : files_) total += file.bytes;
  while (total > options_.bytes && !files_.empty()) {
    size_t oldest = files_.size();
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].path != spared && (oldest == files_.size() || files_[i].used < files_[oldest].used))
        oldest = i;
    }
    if (oldest == files_.size()) return;
    total -= files_[oldest].bytes;
    remove(oldest);
  }
}

}  // namespace rafter::sched
