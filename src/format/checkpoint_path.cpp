#include "format/checkpoint_path.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/ranges.h>

#include "base/mapped_file.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorCode;

struct Listing {
  std::vector<std::string> gguf, safetensors,
      pickles;  // file names, sorted; a split GGUF by its first part only
};

bool is_later_split(const std::string& name) {
  // NAME-00002-of-00003.gguf
  const size_t of = name.rfind("-of-");
  return of != std::string::npos && of >= 6 && name.size() == of + 14 && name[of - 6] == '-' &&
         name.compare(of - 5, 5, "00001") != 0;
}

Listing list_folder(const std::string& folder) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".gguf") && !is_later_split(name)) listing.gguf.push_back(name);
    if (name.ends_with(".safetensors")) listing.safetensors.push_back(name);
    if (name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".pt"))
      listing.pickles.push_back(name);
  }
  for (auto* names : {&listing.gguf, &listing.safetensors, &listing.pickles})
    std::sort(names->begin(), names->end());
  return listing;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Absolute, without "." and a trailing slash; links are kept.
fs::path normal_path(const std::string& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

bool is_repository(const fs::path& folder) {
  return folder.filename().string().starts_with("models--") && is_there(folder / "snapshots");
}

// The snapshot that refs/main names, else the only one.
base::Result<std::string> snapshot_of(const fs::path& repository) {
  const fs::path snapshots = repository / "snapshots";
  if (auto main = base::read_text_file((repository / "refs" / "main").string(), 4096); main.ok()) {
    std::string commit = main.value();
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
    if (!commit.empty() && commit.find('/') == std::string::npos && commit[0] != '.' &&
        is_there(snapshots / commit)) {
      return (snapshots / commit).string();
    }
  }
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(snapshots, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path().string());
  }
  if (found.size() == 1) return found[0];
  return Error{ErrorCode::not_found,
               found.empty() ? "the repository holds no snapshot"
                             : "the repository holds several snapshots and its refs/main names none of them",
               repository.string(),
               found.empty() ? "download the model again" : "give the path of one snapshot"};
}

base::Result<CheckpointPath> resolve_folder(const std::string& folder) {
  if (const fs::path normal = normal_path(folder); is_repository(normal)) {
    RAFTER_ASSIGN(const std::string snapshot, snapshot_of(normal));
    return resolve_folder(snapshot);
  }
  const Listing listing = list_folder(folder);
  const bool has_config = is_there(fs::path(folder) / "config.json");
  if (has_config && (!listing.safetensors.empty() || listing.gguf.empty())) {
    if (listing.safetensors.empty() && !listing.pickles.empty()) {
      return Error{ErrorCode::unsupported, "the folder holds PyTorch pickles and no safetensors", folder,
                   "use a repository that has .safetensors or .gguf files"};
    }
    return CheckpointPath{Container::safetensors, folder};
  }
  if (listing.gguf.size() == 1)
    return CheckpointPath{Container::gguf, (fs::path(folder) / listing.gguf[0]).string()};
  if (listing.gguf.size() > 1) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("the folder holds {} GGUF models: {}", listing.gguf.size(),
                             fmt::join(listing.gguf, ", ")),
                 folder, "give the path of one of them"};
  }
  if (!listing.safetensors.empty()) {
    return Error{ErrorCode::not_found, "the folder holds safetensors but no config.json", folder,
                 "the model's config.json must stand beside its weights"};
  }
  return Error{ErrorCode::not_found, "no model in this folder: no config.json and no .gguf file", folder, ""};
}

bool begins_with_gguf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, 4) && std::memcmp(magic, "GGUF", 4) == 0;
}

// The repository folder that a snapshot's folder belongs to; empty for any other folder.
fs::path repository_around(const fs::path& folder) {
  for (fs::path at = folder; at.has_parent_path() && at != at.parent_path(); at = at.parent_path()) {
    if (is_repository(at)) return at;
  }
  return {};
}

}  // namespace

base::Result<CheckpointPath> resolve_checkpoint_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (path.empty() || !fs::exists(status)) {
    return Error{ErrorCode::not_found, "no such file or folder", path,
                 "a model is a folder with config.json and safetensors, or a .gguf file"};
  }
  if (fs::is_directory(status)) return resolve_folder(path);
  if (!fs::is_regular_file(status))
    return Error{ErrorCode::invalid_argument, "neither a file nor a folder", path, ""};
  const std::string name = fs::path(path).filename().string();
  std::string folder = fs::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (name.ends_with(".gguf") || begins_with_gguf(path)) {
    RAFTER_ASSIGN(std::string file, file_in_folder(folder, name));
    return CheckpointPath{Container::gguf, std::move(file)};
  }
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") || name == "config.json") {
    if (is_there(fs::path(folder) / "config.json")) return CheckpointPath{Container::safetensors, folder};
    return Error{ErrorCode::not_found, "no config.json beside this file", path,
                 "a safetensors model is opened by its folder, which must hold config.json"};
  }
  return Error{ErrorCode::unsupported, "not a model file that this program reads", path,
               "a model is a folder with config.json and safetensors, or a .gguf file"};
}

base::Result<std::string> file_in_folder(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  std::error_code error;
  // As the path is spelled, so that a snapshot that is a link itself is seen; else where it leads.
  fs::path repository = repository_around(normal_path(folder));
  if (repository.empty()) repository = repository_around(fs::weakly_canonical(folder, error));
  if (repository.empty()) return path.string();
  repository = fs::weakly_canonical(repository, error);
  const fs::path real = error ? fs::path() : fs::weakly_canonical(path, error);
  const auto inside = std::mismatch(repository.begin(), repository.end(), real.begin(), real.end()).first;
  if (error || inside != repository.end()) {
    return Error{ErrorCode::invalid_data, "a link in the cache leaves its repository", path.string(),
                 "download the model again"};
  }
  return path.string();
}

}  // namespace rafter::format
