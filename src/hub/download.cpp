#include "hub/download.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "hub/blob_file.h"

namespace rafter::hub {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorCode;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kLockPoll = std::chrono::milliseconds(200);
constexpr int64_t kDiskReserve = 64 << 20;

// One blob, wanted under one path or several.
struct Blob {
  std::vector<RemoteFile> files;
  std::optional<FileLock> lock;
  std::unique_ptr<BlobFile> content;
  std::atomic<int64_t> pieces_left{0};
  bool told_waiting = false;

  const RemoteFile& file() const { return files.front(); }
};

bool is_present(const CacheLayout& layout, const RemoteFile& file) {
  std::error_code failed;
  const fs::path blob = layout.blob(file.digest.hex);
  return fs::is_regular_file(blob, failed) &&
         static_cast<int64_t>(fs::file_size(blob, failed)) == file.size && !failed;
}

// The work of one call: a queue of blobs to open and pieces to fetch, and the threads that take from it.
class Download {
 public:
  Download(const HubSettings& settings, const RemoteRepository& repository, const CacheLayout& layout,
           const DownloadOptions& options)
      : settings_(settings), repository_(repository), layout_(layout), options_(options) {}

  void add(const RemoteFile& file) {
    std::unique_ptr<Blob>& blob = blobs_[file.digest.hex];
    if (blob == nullptr) blob = std::make_unique<Blob>();
    blob->files.push_back(file);
  }

  base::Result<Snapshot> run();

 private:
  struct Job {
    Blob* blob = nullptr;
    std::optional<BlobFile::Piece> piece;  // none: open the blob first
    std::chrono::steady_clock::time_point not_before;
  };

  void work();
  base::Status open_blob(HttpClient& client, Blob& blob);
  base::Status fetch_piece(HttpClient& client, Blob& blob, const BlobFile::Piece& piece, bool first);
  base::Status finish_piece(Blob& blob, const BlobFile::Piece& piece);
  base::Status finish_blob(Blob& blob, FileOutcome outcome);
  void push(Job job);
  void fail(const Error& error);
  struct Need {
    int64_t bytes = 0;       // of the blobs that are not there
    int64_t disk_bytes = 0;  // that they will still take
  };
  Need need() const;

  const HubSettings& settings_;
  const RemoteRepository& repository_;
  const CacheLayout& layout_;
  const DownloadOptions& options_;
  std::map<std::string, std::unique_ptr<Blob>> blobs_;  // by digest

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  size_t blobs_left_ = 0;
  std::optional<Error> error_;
  std::vector<std::pair<Blob*, FileOutcome>> finished_;  // not yet reported
  std::vector<Blob*> waiting_;                           // likewise
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> fetched_{0};
};

Download::Need Download::need() const {
  Need need;
  for (const auto& [digest, blob] : blobs_) {
    if (is_present(layout_, blob->file())) continue;
    need.bytes += blob->file().size;
    need.disk_bytes += blob->file().size;
    struct stat partial{};  // what an earlier process fetched lies on the disk already
    if (::stat(layout_.partial(digest).c_str(), &partial) == 0) {
      need.disk_bytes -= std::min<int64_t>(partial.st_blocks * 512, blob->file().size);
    }
  }
  return need;
}

void Download::push(Job job) {
  const std::lock_guard lock(mutex_);
  // Pieces first: a file that was begun is finished before the next one is.
  job.piece ? queue_.push_front(job) : queue_.push_back(job);
  changed_.notify_all();
}

void Download::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  // What stopped the others is the cause; what they say of it is not.
  if (!error_) error_ = error;
  stop_ = true;
  changed_.notify_all();
}

void Download::work() {
  HttpClient client(&stop_);
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        if (stop_ || blobs_left_ == 0) return;
        const auto now = std::chrono::steady_clock::now();
        const auto ready =
            std::find_if(queue_.begin(), queue_.end(), [&](const Job& j) { return j.not_before <= now; });
        if (ready != queue_.end()) {
          job = *ready;
          queue_.erase(ready);
          break;
        }
        changed_.wait_for(lock, kTick);
      }
    }
    const base::Status status =
        job.piece ? fetch_piece(client, *job.blob, *job.piece, false) : open_blob(client, *job.blob);
    if (!status.ok()) return fail(status.error());
  }
}

base::Status Download::open_blob(HttpClient& client, Blob& blob) {
  RAFTER_ASSIGN(blob.lock,
                FileLock::try_lock(layout_.lock(blob.file().digest.hex), FileLock::Mode::exclusive));
  if (!blob.lock) {  // another process has it; look again later, and do something else meanwhile
    {
      const std::lock_guard lock(mutex_);
      if (!blob.told_waiting) waiting_.push_back(&blob);
      blob.told_waiting = true;
    }
    push({&blob, std::nullopt, std::chrono::steady_clock::now() + kLockPoll});
    return {};
  }
  if (is_present(layout_, blob.file())) return finish_blob(blob, FileOutcome::present);
  RAFTER_ASSIGN(BlobFile content, BlobFile::open(layout_, blob.file(), options_.piece_bytes));
  blob.content = std::make_unique<BlobFile>(std::move(content));
  const auto missing = blob.content->missing();
  fetched_ += blob.file().size - blob.content->missing_bytes();
  blob.pieces_left = static_cast<int64_t>(missing.size());
  if (missing.empty()) return finish_blob(blob, FileOutcome::downloaded);
  return fetch_piece(client, blob, missing.front(), true);
}

// Fetches one piece. The first of a blob finds out whether the server gives ranges: if so, the other pieces
// are queued once its answer begins; if not, the whole body comes here.
base::Status Download::fetch_piece(HttpClient& client, Blob& blob, const BlobFile::Piece& piece, bool first) {
  const RemoteFile& file = blob.file();
  const bool only = first && piece.begin == 0 && piece.end == file.size;
  int64_t at = piece.begin;  // next byte to write
  bool whole = false;        // the body is the whole file, from its start
  bool queued = false;
  std::optional<Error> broken;
  HttpRequest request;
  request.url = file_url(settings_, repository_, file);
  request.token = settings_.token;
  const auto before_try = [&](HttpRequest& r) {
    r.range_begin.reset();
    if (whole) {  // cannot be continued: from the start
      fetched_ -= at;
      at = 0;
    } else if (!only || at > piece.begin) {
      r.range_begin = at;
      r.range_end = piece.end;
    }
  };
  int64_t body_at = 0;  // where in the file the body's next byte belongs
  bool begun = false;
  const auto sink = [&](const HttpResponse& response, std::span<const std::byte> bytes) {
    if (!begun) {
      begun = true;
      if (response.status == 206) {
        const auto range = response.content_range();
        if (!range || range->begin != at || (range->total >= 0 && range->total != file.size)) {
          broken = Error{ErrorCode::invalid_data,
                         fmt::format("the server answers with the range \"{}\" of a file of {} bytes",
                                     response.header("content-range"), file.size),
                         file.path, "the file changed meanwhile; run it again"};
          return false;
        }
        body_at = at;
        if (first && !queued) {
          queued = true;
          for (const BlobFile::Piece& other : blob.content->missing()) {
            if (other.index != piece.index) push({&blob, other, {}});
          }
        }
      } else {
        body_at = 0;
        if (first && !only && !queued && !whole) {  // no ranges here
          whole = true;
          fetched_ -= file.size - blob.content->missing_bytes();
          if (base::Status status = blob.content->forget_pieces(); !status.ok()) {
            broken = status.error();
            return false;
          }
          at = 0;
        }
      }
    }
    const int64_t end = whole || only ? file.size : piece.end;
    if (body_at + static_cast<int64_t>(bytes.size()) > file.size) {
      broken =
          Error{ErrorCode::invalid_data,
                fmt::format("the server sends more than the {} bytes it promised", file.size), file.path, ""};
      return false;
    }
    // A server that ignores the range sends what was not asked for, too: pass over it.
    const int64_t skipped =
        std::min<int64_t>(std::max<int64_t>(at - body_at, 0), static_cast<int64_t>(bytes.size()));
    body_at += skipped;
    const auto wanted = bytes.subspan(static_cast<size_t>(skipped));
    const auto count = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(wanted.size()), end - at));
    if (base::Status status = blob.content->write(at, wanted.first(count)); !status.ok()) {
      broken = status.error();
      return false;
    }
    at += static_cast<int64_t>(count);
    body_at += static_cast<int64_t>(count);
    fetched_ += static_cast<int64_t>(count);
    return at < end || count == wanted.size();
  };

  for (int round = 0;; ++round) {
    const int64_t end = whole ? file.size : piece.end;
    if (at >= end && !(file.size == 0 && round == 0)) break;
    const int64_t before = at;
    auto response = exchange_with_retries(
        client, settings_, request, sink,
        [&](HttpRequest& r) {
          begun = false;
          before_try(r);
        },
        &stop_);
    if (broken) return *broken;
    if (at >= (whole ? file.size : piece.end) && file.size > 0)
      break;  // all there, however the exchange ended
    if (!response.ok()) return response.error();
    if (response->status != 200 && response->status != 206)
      return status_error(*response, settings_, file.path);
    if (file.size == 0) break;
    if (at == before || round >= settings_.retries) {
      return Error{ErrorCode::io, fmt::format("the server ends the file after {} of {} bytes", at, end),
                   file.path, "run it again: it goes on where it stopped"};
    }
  }
  if (whole) {
    for (const BlobFile::Piece& each : blob.content->missing()) RAFTER_TRY(blob.content->mark_done(each));
    blob.pieces_left = 0;
    return finish_blob(blob, FileOutcome::downloaded);
  }
  return finish_piece(blob, piece);
}

base::Status Download::finish_piece(Blob& blob, const BlobFile::Piece& piece) {
  RAFTER_TRY(blob.content->mark_done(piece));
  if (blob.pieces_left.fetch_sub(1) > 1) return {};
  return finish_blob(blob, FileOutcome::downloaded);
}

base::Status Download::finish_blob(Blob& blob, FileOutcome outcome) {
  if (blob.content != nullptr) RAFTER_TRY(blob.content->finish());
  for (const RemoteFile& file : blob.files) {
    RAFTER_TRY(layout_.link(repository_.commit, file.path, file.digest.hex));
  }
  blob.content.reset();
  blob.lock.reset();
  const std::lock_guard lock(mutex_);
  finished_.emplace_back(&blob, outcome);
  --blobs_left_;
  changed_.notify_all();
  return {};
}

base::Result<Snapshot> Download::run() {
  Snapshot snapshot;
  snapshot.commit = repository_.commit;
  snapshot.folder = layout_.snapshot(repository_.commit);
  const Need needed = need();
  RAFTER_TRY(check_disk_space(layout_.folder(), needed.disk_bytes));
  blobs_left_ = blobs_.size();
  // The largest first: the last connection to end should not be at the start of one.
  std::vector<Blob*> order;
  for (const auto& [digest, blob] : blobs_) order.push_back(blob.get());
  std::sort(order.begin(), order.end(),
            [](const Blob* a, const Blob* b) { return a->file().size > b->file().size; });
  for (Blob* blob : order) queue_.push_back({blob, std::nullopt, {}});

  std::vector<std::jthread> threads;
  for (int i = 0; i < std::max(1, options_.connections); ++i) threads.emplace_back([this] { work(); });
  for (bool running = true; running;) {
    std::vector<std::pair<Blob*, FileOutcome>> finished;
    std::vector<Blob*> waiting;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kTick, [&] { return stop_ || blobs_left_ == 0 || !finished_.empty(); });
      running = !stop_ && blobs_left_ > 0;
      finished.swap(finished_);
      waiting.swap(waiting_);
    }
    if (options_.stopping != nullptr && options_.stopping->load()) {
      fail({ErrorCode::interrupted, "interrupted", repository_.name,
            "run it again: it goes on where it stopped"});
    }
    for (Blob* blob : waiting) {
      if (options_.waiting) options_.waiting(blob->file());
    }
    for (const auto& [blob, outcome] : finished) {
      for (const RemoteFile& file : blob->files) {
        snapshot.files.emplace_back(file, outcome);
        if (options_.finished) options_.finished(file, outcome);
      }
      if (outcome == FileOutcome::downloaded) snapshot.bytes_fetched += blob->file().size;
    }
    if (options_.progress) options_.progress(fetched_, needed.bytes);
  }
  threads.clear();
  if (error_) return *error_;
  std::sort(snapshot.files.begin(), snapshot.files.end(),
            [](const auto& a, const auto& b) { return a.first.path < b.first.path; });
  return snapshot;
}

}  // namespace

base::Status check_disk_space(const std::string& folder, int64_t bytes) {
  struct statvfs info{};
  if (bytes <= 0 || ::statvfs(folder.c_str(), &info) != 0) return {};
  const double available = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  if (available >= static_cast<double>(bytes + kDiskReserve)) return {};
  return Error{ErrorCode::io,
               fmt::format("{:.1f} GB are needed and the disk has {:.1f} GB left",
                           static_cast<double>(bytes) * 1e-9, available * 1e-9),
               folder,
               "free some space (`rafter gc` shows what can go), or set HF_HUB_CACHE to another disk"};
}

base::Result<Snapshot> download_files(const HubSettings& settings, const RemoteRepository& repository,
                                      const std::vector<RemoteFile>& files, const std::string& revision,
                                      const DownloadOptions& options) {
  const CacheLayout layout(settings.cache, repository.name);
  RAFTER_TRY(layout.create_folders());
  std::optional<FileLock> in_use;
  while (!in_use) {  // gc holds it alone for a moment
    RAFTER_ASSIGN(in_use, FileLock::try_lock(layout.in_use_lock(), FileLock::Mode::shared));
    if (in_use) break;
    if (options.stopping != nullptr && options.stopping->load()) {
      return Error{ErrorCode::interrupted, "interrupted", repository.name, ""};
    }
    std::this_thread::sleep_for(kTick);
  }
  Download download(settings, repository, layout, options);
  for (const RemoteFile& file : files) download.add(file);
  RAFTER_ASSIGN(Snapshot snapshot, download.run());
  if (revision != repository.commit) RAFTER_TRY(layout.write_ref(revision, repository.commit));
  return snapshot;
}

base::Result<Snapshot> cached_snapshot(const HubSettings& settings, const std::string& name,
                                       const std::string& revision) {
  const CacheLayout layout(settings.cache, name);
  Snapshot snapshot;
  snapshot.commit = layout.commit_of(revision);
  if (snapshot.commit.empty()) {
    return Error{ErrorCode::not_found, "the cache does not hold this revision", name + " at " + revision,
                 "unset HF_HUB_OFFLINE to fetch it"};
  }
  snapshot.folder = layout.snapshot(snapshot.commit);
  std::error_code failed;
  for (fs::recursive_directory_iterator at(snapshot.folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (!at->is_regular_file(failed)) continue;
    RemoteFile file;
    file.path = at->path().lexically_relative(snapshot.folder).string();
    file.size = static_cast<int64_t>(at->file_size(failed));
    snapshot.files.emplace_back(file, FileOutcome::present);
  }
  std::sort(snapshot.files.begin(), snapshot.files.end(),
            [](const auto& a, const auto& b) { return a.first.path < b.first.path; });
  return snapshot;
}

}  // namespace rafter::hub
