#include "store/model_scan.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/mapped_file.h"
#include "store/paths.h"

namespace rafter::store {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 4;

// The entries of a folder by name; unreadable folders have none.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    entries.push_back(*at);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// A file by its own name in its resolved folder. The last link is kept: in a Hugging Face cache it leads to a
// blob whose name says nothing.
std::string file_path(const fs::path& file) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(file, failed);
  return normalized_path(absolute.parent_path().string()) + "/" + absolute.filename().string();
}

bool is_model_folder(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_regular_file(folder / "config.json", failed)) return false;
  const auto entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

// Parts after the first ("name-00002-of-00003.gguf") are not models of their own.
bool is_gguf_model(const fs::path& file) {
  static const std::regex kPart("-([0-9]{5})-of-[0-9]{5}\\.gguf$");
  if (file.extension() != ".gguf") return false;
  std::smatch match;
  const std::string name = file.filename().string();
  return !std::regex_search(name, match, kPart) || match[1] == "00001";
}

void scan_folder(const fs::path& folder, int depth, std::vector<FoundModel>& found) {
  if (is_model_folder(folder))
    found.push_back({normalized_path(folder.string()), folder.filename().string()});
  for (const fs::directory_entry& entry : entries_of(folder)) {
    std::error_code failed;
    if (entry.is_regular_file(failed) && is_gguf_model(entry.path())) {
      found.push_back({file_path(entry.path()), entry.path().stem().string()});
    } else if (depth > 0 && entry.is_directory(failed) && !entry.is_symlink(failed) &&
               entry.path().filename().string().front() != '.') {
      scan_folder(entry.path(), depth - 1, found);
    }
  }
}

// The snapshot that refs/main names, else the one changed last; empty when there is none.
fs::path chosen_snapshot(const fs::path& repository) {
  std::error_code failed;
  const fs::path snapshots = repository / "snapshots";
  if (auto commit = base::read_text_file((repository / "refs" / "main").string(), 4096); commit.ok()) {
    std::string name = *commit;
    while (!name.empty() && (name.back() == '\n' || name.back() == '\r' || name.back() == ' '))
      name.pop_back();
    const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
    if (plain && fs::is_directory(snapshots / name, failed)) return snapshots / name;
  }
  fs::path newest;
  fs::file_time_type newest_time;
  for (const fs::directory_entry& entry : entries_of(snapshots)) {
    if (!entry.is_directory(failed)) continue;
    const auto time = entry.last_write_time(failed);
    if (newest.empty() || time > newest_time) newest = entry.path(), newest_time = time;
  }
  return newest;
}

bool stays_inside(const fs::path& snapshot, const fs::path& repository) {
  std::error_code failed;
  const std::string root = fs::canonical(repository, failed).string() + "/";
  if (failed) return false;
  for (const fs::directory_entry& entry : entries_of(snapshot)) {
    const std::string target = fs::weakly_canonical(entry.path(), failed).string();
    if (failed || !target.starts_with(root)) return false;
  }
  return true;
}

// "models--org--name" → "org/name"; the first "--" after the prefix divides them. Empty for other folders.
std::string repository_name(const std::string& folder) {
  constexpr std::string_view kPrefix = "models--";
  if (!folder.starts_with(kPrefix) || folder.size() == kPrefix.size()) return "";
  std::string name = folder.substr(kPrefix.size());
  if (size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
  return name;
}

}  // namespace

std::vector<FoundModel> scan_hugging_face_cache(const std::string& hub_directory) {
  std::vector<FoundModel> found;
  for (const fs::directory_entry& repository : entries_of(hub_directory)) {
    const std::string name = repository_name(repository.path().filename().string());
    if (name.empty()) continue;
    const fs::path snapshot = chosen_snapshot(repository.path());
    if (snapshot.empty() || !stays_inside(snapshot, repository.path())) continue;
    // The snapshot's own path is kept, not the blobs its links lead to: files are found by their names in it.
    if (is_model_folder(snapshot)) found.push_back({normalized_path(snapshot.string()), name});
    for (const fs::directory_entry& entry : entries_of(snapshot)) {
      std::error_code failed;
      if (!entry.is_regular_file(failed) || !is_gguf_model(entry.path())) continue;
      const std::string folder = normalized_path(snapshot.string());
      found.push_back(
          {folder + "/" + entry.path().filename().string(), name + "/" + entry.path().stem().string()});
    }
  }
  return found;
}

base::Result<std::vector<FoundModel>> scan_path(const std::string& path) {
  std::error_code failed;
  std::vector<FoundModel> found;
  const fs::path place = path;
  if (fs::is_directory(place, failed)) {
    scan_folder(normalized_path(path), kDepth, found);
  } else if (!fs::exists(place, failed)) {
    return base::Error{base::ErrorCode::not_found, "no such file or folder", path, ""};
  } else if (is_gguf_model(place)) {
    found.push_back({file_path(place), place.stem().string()});
  }
  return found;
}

}  // namespace rafter::store
