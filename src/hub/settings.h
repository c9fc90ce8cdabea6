// Where the hub is and what is said to it, from the environment that Hugging Face's own tools read.
#pragma once

#include <string>

#include "base/result.h"

namespace rafter::hub {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // $HF_ENDPOINT; no '/' at the end
  std::string token;             // $HF_TOKEN, else the file that a login left; may be empty
  std::string cache;             // the hub's cache folder
  bool offline = false;          // $HF_HUB_OFFLINE
  int retries = 5;               // of a request that failed for a passing reason
  int retry_milliseconds = 500;  // before the first; each doubles it
};

// Errors: invalid_argument (an endpoint that is no URL, a token with characters that no header may hold).
base::Result<HubSettings> settings_from_environment(const std::string& cache_folder);

}  // namespace rafter::hub
