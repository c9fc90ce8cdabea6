// What a hub says about a model repository: its commit and its files.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/digest.h"
#include "hub/http.h"
#include "hub/settings.h"

namespace rafter::hub {

struct RemoteFile {
  std::string path;  // inside the repository, '/' between folders; validated
  int64_t size = -1;
  Digest digest;  // names the blob in the cache
};

struct RemoteRepository {
  std::string name;    // "org/name"
  std::string commit;  // 40 hex digits
  std::vector<RemoteFile> files;
};

// Whether `name` is "org/name" (or "name", for the oldest repositories) as the hub allows it.
bool is_repository_name(const std::string& name);

// Whether `path` stays inside the folder it is joined to, on any system: relative, no empty, "." or ".."
// part, no backslash, colon, control character.
bool is_safe_path(const std::string& path);

// Whether a revision can be asked for and stored: a branch, tag or commit name.
bool is_revision_name(const std::string& revision);

// Asks the hub. Sizes (−1) and digests (empty) that the listing lacks are left to complete_files(). Errors:
// not_found (repository or revision), invalid_argument (names), invalid_data (a listing that makes no sense),
// io; a gated or private repository says what to do.
base::Result<RemoteRepository> fetch_repository(HttpClient& client, const HubSettings& settings,
                                                const std::string& name, const std::string& revision);

// Asks file by file for the sizes and digests that are still unknown; for the files that are wanted. Errors:
// as above; unsupported (the server does not say).
base::Status complete_files(HttpClient& client, const HubSettings& settings, RemoteRepository& repository);

// Where a file's content is.
std::string file_url(const HubSettings& settings, const RemoteRepository& repository, const RemoteFile& file);

// An exchange with retries: passing failures, 429 and 5xx are tried again after a while (Retry-After is
// honoured up to a minute). `sink` is called anew for each try; `before_try` runs first and may change the
// request.
base::Result<HttpResponse> exchange_with_retries(HttpClient& client, const HubSettings& settings,
                                                 HttpRequest& request, const BodySink& sink,
                                                 const std::function<void(HttpRequest&)>& before_try,
                                                 const std::atomic<bool>* stopping);

// The error that a status stands for. `what` names the thing asked for.
base::Error status_error(const HttpResponse& response, const HubSettings& settings, const std::string& what);

}  // namespace rafter::hub
