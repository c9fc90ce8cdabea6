#include "lab/synth_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "base/output_file.h"

namespace rafter::lab {
namespace {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorCode;

Error io_error(const std::string& path, const char* action, const std::error_code& error) {
  return {ErrorCode::io, fmt::format("cannot {}: {}", action, error.message()), path, ""};
}

// NAME.PID.tmp, what a killed run leaves (base/output_file.h) → NAME; any other name as it is.
std::string without_temporary_suffix(std::string name) {
  if (!name.ends_with(".tmp")) return name;
  const std::string stem = name.substr(0, name.size() - 4);
  const size_t dot = stem.find_last_not_of("0123456789");
  return dot == std::string::npos || stem[dot] != '.' || dot + 1 == stem.size() ? name : stem.substr(0, dot);
}

struct Content {
  bool empty = true;
  std::vector<fs::path> old_files;  // that give way
  uint64_t old_bytes = 0;
};

base::Result<Content> list(const std::string& path, const SynthFolder::Replaces& replaces) {
  Content content;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    content.empty = false;
    std::error_code ignored;
    if (!fs::is_regular_file(entry->symlink_status(ignored)) ||
        !replaces(without_temporary_suffix(entry->path().filename().string())))
      continue;
    content.old_files.push_back(entry->path());
    content.old_bytes += fs::file_size(entry->path(), ignored);
  }
  if (error) return io_error(path, "list folder", error);
  return content;
}

// `freed`: bytes that will be removed first.
base::Status check_room(const std::string& path, uint64_t bytes, uint64_t freed) {
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  if (error) return io_error(path, "ask for free space", error);
  const uint64_t available = space.available + freed;
  if (available >= bytes) return {};
  const auto gigabytes = [](uint64_t count) { return static_cast<double>(count) * 1e-9; };
  return Error{
      ErrorCode::io,
      fmt::format("{:.2f} GB are needed and {:.2f} GB are free", gigabytes(bytes), gigabytes(available)),
      path, "free some disk space, or choose another folder"};
}

}  // namespace

bool is_safetensors_checkpoint_file(const std::string& name) {
  static constexpr std::array kNames = {
      "config.json",           "generation_config.json", "tokenizer.json",
      "tokenizer_config.json", "chat_template.jinja",    "special_tokens_map.json",
      "added_tokens.json",     "model.safetensors",      "model.safetensors.index.json"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  std::string pattern = name;
  for (char& c : pattern) c = std::isdigit(static_cast<unsigned char>(c)) != 0 ? '0' : c;
  return pattern == "model-00000-of-00000.safetensors";
}

base::Result<SynthFolder> SynthFolder::prepare(const std::string& path, uint64_t bytes, bool force,
                                               const Replaces& replaces) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (path.empty() || (exists && !fs::is_directory(path, error)))
    return Error{ErrorCode::invalid_argument, "not a folder", path.empty() ? "--out" : path,
                 "name a folder, new or empty"};
  // Without a slash at the end, behind which create_directories() sees nothing to make.
  const fs::path given = path;
  SynthFolder folder((given.has_filename() ? given : given.parent_path()).string());
  folder.made_ = fs::create_directories(folder.path_, error);
  if (error) return io_error(path, "make folder", error);
  RAFTER_ASSIGN(const Content content, list(path, replaces));
  if (!content.empty && !force) {
    return Error{ErrorCode::io, "the folder is not empty", path,
                 "name another, or replace the checkpoint in it with --force"};
  }
  RAFTER_TRY(check_room(path, bytes, content.old_bytes));
  for (const fs::path& file : content.old_files) {
    if (!fs::remove(file, error) && error) return io_error(file.string(), "remove file", error);
  }
  return folder;
}

SynthFolder::SynthFolder(SynthFolder&& other) noexcept
    : path_(std::move(other.path_)),
      files_(std::move(other.files_)),
      made_(other.made_),
      kept_(std::exchange(other.kept_, true)) {}

SynthFolder::~SynthFolder() {
  if (kept_) return;
  std::error_code ignored;
  for (const std::string& name : files_) fs::remove(fs::path(path_) / name, ignored);
  if (made_) fs::remove(path_, ignored);  // only when empty
}

std::string SynthFolder::add(const std::string& name) {
  files_.push_back(name);
  return (fs::path(path_) / name).string();
}

base::Status SynthFolder::write_blocking(const std::string& name, std::string_view text) {
  RAFTER_ASSIGN(base::OutputFile file, base::OutputFile::create(add(name), text.size()));
  RAFTER_TRY(file.write_at(0, std::as_bytes(std::span(text))));
  return file.finish_blocking();
}

uint64_t SynthFolder::bytes() const {
  uint64_t sum = 0;
  std::error_code ignored;
  for (const std::string& name : files_) sum += fs::file_size(fs::path(path_) / name, ignored);
  return sum;
}

}  // namespace rafter::lab
