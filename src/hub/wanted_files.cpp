#include "hub/wanted_files.h"

#include <algorithm>
#include <map>

#include <fnmatch.h>

namespace rafter::hub {

using base::Error;
using base::ErrorCode;

namespace {

// What goes with the weights: configuration, tokenizers, templates. Code is never fetched.
constexpr const char* kSmallFiles[] = {"*.json", "tokenizer.model", "*.tiktoken",
                                       "*.txt",  "*.jsonl",         "*.jinja"};
constexpr const char* kPreferredGguf[] = {"Q4_K_M", "Q4_0", "Q8_0"};

std::string lowercase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(path, pattern); });
}

bool is_small_file(const std::string& path) {
  if (path.starts_with("additional_chat_templates/") && path.ends_with(".jinja")) return true;
  return path.find('/') == std::string::npos &&
         std::any_of(std::begin(kSmallFiles), std::end(kSmallFiles),
                     [&](const char* pattern) { return matches_pattern(path, pattern); });
}

// A model's GGUF file, not a projector of images or an importance matrix.
bool is_gguf_model(const std::string& path) {
  const std::string name = lowercase(file_name(path));
  return name.ends_with(".gguf") && !name.starts_with("mmproj") && name.find("imatrix") == std::string::npos;
}

// "name-00002-of-00003.gguf" → "name.gguf": the parts of one model share it.
std::string without_part(const std::string& path) {
  constexpr size_t kPart = std::string_view("-00002-of-00003.gguf").size();
  if (path.size() <= kPart) return path;
  const std::string tail = path.substr(path.size() - kPart);
  const auto digits = [&](size_t at) {
    return std::all_of(tail.begin() + static_cast<std::ptrdiff_t>(at),
                       tail.begin() + static_cast<std::ptrdiff_t>(at + 5),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  const bool part = tail[0] == '-' && digits(1) && tail.substr(6, 4) == "-of-" && digits(10);
  return part ? path.substr(0, path.size() - kPart) + ".gguf" : path;
}

using Models = std::map<std::string, std::vector<RemoteFile>>;  // parts by the model's name

std::string list_of(const Models& models) {
  constexpr size_t kShown = 24;
  std::string list;
  size_t count = 0;
  for (const auto& [name, parts] : models) {
    if (count++ == kShown) return list + fmt::format(" and {} more", models.size() - kShown);
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

base::Result<ChosenFiles> choose_gguf(const RemoteRepository& repository, const Models& models,
                                      const std::string& wanted) {
  const auto containing = [&](const std::string& part) {
    Models matching;
    for (const auto& [name, parts] : models) {
      if (lowercase(name).find(lowercase(part)) != std::string::npos) matching[name] = parts;
    }
    return matching;
  };
  Models chosen = wanted.empty() ? models : containing(wanted);
  if (wanted.empty() && models.size() > 1) {
    for (const char* preferred : kPreferredGguf) {
      chosen = containing(preferred);
      if (chosen.size() == 1) break;
    }
  }
  // "Q4_K" stands for the file that ends in it, if one does.
  if (!wanted.empty() && chosen.size() > 1) {
    Models ending;
    for (const auto& [name, parts] : chosen) {
      if (lowercase(name).ends_with(lowercase(wanted) + ".gguf")) ending[name] = parts;
    }
    if (ending.size() == 1) chosen = ending;
  }
  if (chosen.empty() && !wanted.empty()) {
    return Error{ErrorCode::not_found, fmt::format("no GGUF file here has \"{}\" in its name", wanted),
                 repository.name, "there are: " + list_of(models)};
  }
  if (chosen.size() != 1) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} GGUF models to choose from: {}", models.size(),
                             list_of(chosen.empty() ? models : chosen)),
                 repository.name, fmt::format("name one, as in {}:Q4_K_M", repository.name)};
  }
  ChosenFiles result;
  result.files = chosen.begin()->second;
  std::sort(result.files.begin(), result.files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  result.gguf = result.files.front().path;
  return result;
}

}  // namespace

bool matches_pattern(const std::string& path, const std::string& pattern) {
  const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
  return ::fnmatch(whole.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

base::Result<ChosenFiles> choose_files(const RemoteRepository& repository, const FileChoice& choice) {
  ChosenFiles result;
  Models gguf;
  bool safetensors = false, main_safetensors = false;
  for (const RemoteFile& file : repository.files) {
    const std::string name = file_name(file.path);
    if (is_gguf_model(file.path) && !matches_any(file.path, choice.exclude))
      gguf[without_part(file.path)].push_back(file);
    if (file.path.find('/') != std::string::npos || !name.ends_with(".safetensors")) continue;
    safetensors = true;
    main_safetensors = main_safetensors || name.starts_with("model");
  }
  if (choice.include.empty() && (!choice.gguf.empty() || (!safetensors && !gguf.empty()))) {
    return choose_gguf(repository, gguf, choice.gguf);
  }
  for (const RemoteFile& file : repository.files) {
    bool wanted = false;
    if (!choice.include.empty()) {
      wanted = matches_any(file.path, choice.include);
    } else if (file.path.ends_with(".safetensors")) {
      // Some repositories hold a second copy of the weights under another name.
      wanted =
          file.path.find('/') == std::string::npos && (!main_safetensors || file.path.starts_with("model"));
    } else {
      wanted = is_small_file(file.path);
    }
    if (wanted && !matches_any(file.path, choice.exclude)) result.files.push_back(file);
  }
  std::sort(result.files.begin(), result.files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  if (result.files.empty() || (choice.include.empty() && !safetensors)) {
    return Error{
        ErrorCode::not_found,
        choice.include.empty() ? "the repository holds no safetensors or GGUF weights"
                               : fmt::format("none of its {} files matches", repository.files.size()),
        repository.name, choice.include.empty() ? "look for a conversion of it" : "patterns are like *.gguf"};
  }
  for (const RemoteFile& file : result.files) {
    if (!safetensors && is_gguf_model(file.path) && result.gguf.empty()) result.gguf = file.path;
  }
  return result;
}

}  // namespace rafter::hub
