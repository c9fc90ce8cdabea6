// One file from a plain URL, resumed where an earlier process stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/settings.h"

namespace rafter::hub {

struct UrlDownloadOptions {
  std::string sha256;  // what the content must be; empty: not checked
  const std::atomic<bool>* stopping = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;  // total 0: the server does not say
};

struct UrlFile {
  std::string path;
  int64_t bytes = 0;
  bool was_present = false;
};

// The last part of the URL's path, made safe as a file name. Error: invalid_argument (there is none).
base::Result<std::string> file_name_of(const std::string& url);

// Fetches `url` to FOLDER/NAME through NAME.part; what the server says of its version is kept beside it, so
// that only the same content is gone on with. A file that is there already is taken as it is (its checksum
// is checked if one is given). Errors: io, invalid_data (checksum), not_found, interrupted.
base::Result<UrlFile> download_url(const HubSettings& settings, const std::string& url,
                                   const std::string& folder, const UrlDownloadOptions& options);

}  // namespace rafter::hub
