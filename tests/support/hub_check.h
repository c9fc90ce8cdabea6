// The comparer of the hub tests: what of a cached snapshot is not as the hub's own tools would have left it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tests/support/hub_server.h"

namespace rafter::testing {

// One line per fault; none when `folder` (models--ORG--NAME) holds exactly these files under this commit:
// content, blob names, relative links, nothing unfinished.
inline std::vector<std::string> wrong_in_snapshot(const std::filesystem::path& folder,
                                                  const std::string& commit,
                                                  const std::vector<HubFile>& files) {
  namespace fs = std::filesystem;
  std::vector<std::string> wrong;
  std::error_code failed;
  for (const HubFile& file : files) {
    const fs::path link = folder / "snapshots" / commit / file.path;
    const auto content = base::read_text_file(link.string());
    if (!content.ok() || *content != file.content) wrong.push_back(file.path + ": content");
    std::string up = "../../";
    for (char c : file.path) up += c == '/' ? "../" : "";
    const std::string digest =
        file.large ? HubServer::sha256(file.content) : HubServer::git_sha1(file.content);
    if (fs::read_symlink(link, failed).string() != up + "blobs/" + digest)
      wrong.push_back(file.path + ": link");
  }
  for (fs::directory_iterator at(folder / "blobs", failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->path().extension().empty()) wrong.push_back(at->path().filename().string() + ": unfinished");
  }
  return wrong;
}

}  // namespace rafter::testing
