#include "store/paths.h"

#include <cstdlib>
#include <filesystem>

namespace rafter::store {
namespace {

namespace fs = std::filesystem;

// The variable's value; an empty one counts as unset, as the XDG specification has it.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

base::Result<std::string> below_home(const char* xdg_variable, const char* default_folder, const char* name) {
  if (std::string root = variable(xdg_variable); !root.empty()) return (fs::path(root) / name).string();
  if (std::string home = variable("HOME"); !home.empty())
    return (fs::path(home) / default_folder / name).string();
  return base::Error{base::ErrorCode::not_found, "no folder for this program's files", "environment",
                     fmt::format("set HOME or {}", xdg_variable)};
}

}  // namespace

base::Result<std::string> cache_directory() { return below_home("XDG_CACHE_HOME", ".cache", "rafter"); }

base::Result<std::string> hugging_face_hub_directory() {
  if (std::string hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (std::string home = variable("HF_HOME"); !home.empty()) return (fs::path(home) / "hub").string();
  return below_home("XDG_CACHE_HOME", ".cache", "huggingface/hub");
}

std::string normalized_path(const std::string& path) {
  std::error_code failed;
  fs::path absolute = fs::absolute(path, failed);
  if (failed) return path;
  fs::path canonical = fs::weakly_canonical(absolute, failed);
  std::string text = (failed ? absolute.lexically_normal() : canonical).string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace rafter::store
