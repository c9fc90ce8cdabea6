#include "format/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "format/errors.h"
#include "format/readers.h"

namespace rafter::format {

base::Result<Checkpoint> Checkpoint::open(const std::string& path) {
  RAFTER_ASSIGN(const CheckpointPath resolved, resolve_checkpoint_path(path));
  return resolved.container == Container::gguf ? GgufReader::open(resolved.path)
                                               : SafetensorsReader::open(resolved.path);
}

namespace {

// A text file at `name` below the folder, if there is one.
base::Result<std::optional<std::string>> read_if_there(const std::string& folder, const std::string& name) {
  constexpr uint64_t kLargest = 256ull << 20;
  RAFTER_ASSIGN(const std::string path, file_in_folder(folder, name));
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return std::optional<std::string>();
  if (!std::filesystem::is_regular_file(status)) return invalid(path, "not a regular file");
  RAFTER_ASSIGN(std::string text, base::read_text_file(path, kLargest));
  return std::optional<std::string>(std::move(text));
}

}  // namespace

base::Result<std::optional<std::string>> Checkpoint::sidecar(const std::string& name) const {
  if (container_ == Container::gguf) return std::optional<std::string>();
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return base::Error{base::ErrorCode::invalid_argument, "not a file name", printable(name), ""};
  }
  return read_if_there(path_, name);
}

base::Result<std::vector<std::pair<std::string, std::string>>> Checkpoint::sidecars(
    const std::string& folder, std::string_view extension) const {
  constexpr size_t kMost = 64;
  std::vector<std::pair<std::string, std::string>> files;
  if (container_ == Container::gguf) return files;
  RAFTER_ASSIGN(const std::string path, file_in_folder(path_, folder));
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(extension) && name[0] != '.') names.push_back(name);
    if (names.size() > kMost) return invalid(path, "more than {} files", kMost);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    RAFTER_ASSIGN(std::optional<std::string> text, read_if_there(path_, folder + "/" + name));
    if (text) files.emplace_back(name.substr(0, name.size() - extension.size()), *std::move(text));
  }
  return files;
}

int64_t Checkpoint::file_bytes() const {
  int64_t bytes = 0;
  for (const base::MappedFile& file : files_) bytes += static_cast<int64_t>(file.bytes().size());
  return bytes;
}

base::Status Checkpoint::check_not_truncated() const {
  for (const base::MappedFile& file : files_) RAFTER_TRY(file.check_not_truncated());
  return {};
}

base::Status Checkpoint::check_not_cut() const {
  for (const base::MappedFile& file : files_) RAFTER_TRY(file.check_not_cut());
  return {};
}

void Checkpoint::populate_blocking(const std::atomic<bool>& stopping) const {
  for (const base::MappedFile& file : files_) file.populate_blocking(stopping);
}

}  // namespace rafter::format
