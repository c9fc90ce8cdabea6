#include "hub/settings.h"

#include <algorithm>
#include <cstdlib>

#include "base/mapped_file.h"
#include "hub/http.h"

namespace rafter::hub {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_true(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string stored_token() {
  if (std::string token = variable("HF_TOKEN"); !token.empty()) return token;
  std::string path = variable("HF_TOKEN_PATH");
  if (path.empty() && !variable("HF_HOME").empty()) path = variable("HF_HOME") + "/token";
  if (path.empty()) {
    std::string root = variable("XDG_CACHE_HOME");
    if (root.empty() && !variable("HOME").empty()) root = variable("HOME") + "/.cache";
    if (root.empty()) return "";
    path = root + "/huggingface/token";
  }
  const auto text = base::read_text_file(path, 64 << 10);
  return text.ok() ? *text : "";
}

}  // namespace

base::Result<HubSettings> settings_from_environment(const std::string& cache_folder) {
  HubSettings settings;
  settings.cache = cache_folder;
  if (std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (split_url(settings.endpoint).host.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "not a URL", "HF_ENDPOINT=" + settings.endpoint,
                       "it begins with https:// (or http://)"};
  }
  settings.offline = is_true(variable("HF_HUB_OFFLINE"));
  settings.token = trimmed(stored_token());
  const bool plain =
      std::all_of(settings.token.begin(), settings.token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!plain) {  // the token itself is never printed
    return base::Error{base::ErrorCode::invalid_argument, "the access token holds characters that none has",
                       "HF_TOKEN", "log in again, or set HF_TOKEN to the token alone"};
  }
  return settings;
}

}  // namespace rafter::hub
