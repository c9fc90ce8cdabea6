#include "format/checkpoint.h"

#include <filesystem>

#include "format/errors.h"
#include "format/readers.h"

namespace rafter::format {

base::Result<Checkpoint> Checkpoint::open(const std::string& path) {
  RAFTER_ASSIGN(const CheckpointPath resolved, resolve_checkpoint_path(path));
  return resolved.container == Container::gguf ? GgufReader::open(resolved.path)
                                               : SafetensorsReader::open(resolved.path);
}

base::Result<std::optional<std::string>> Checkpoint::sidecar(const std::string& name) const {
  constexpr uint64_t kLargest = 256ull << 20;
  if (container_ == Container::gguf) return std::optional<std::string>();
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return base::Error{base::ErrorCode::invalid_argument, "not a file name", printable(name), ""};
  }
  RAFTER_ASSIGN(const std::string path, file_in_folder(path_, name));
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return std::optional<std::string>();
  if (!std::filesystem::is_regular_file(status)) return invalid(path, "not a regular file");
  RAFTER_ASSIGN(std::string text, base::read_text_file(path, kLargest));
  return std::optional<std::string>(std::move(text));
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
