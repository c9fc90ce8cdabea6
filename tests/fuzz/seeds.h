// Inputs to begin with. A fuzz target may define fuzz_seeds(); they are what `TARGET --write-seeds DIR`
// writes and what the short runs of the test suite mutate.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

[[gnu::weak]] std::vector<std::string> fuzz_seeds();

namespace rafter::testing {

inline std::string read_seed(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The files below tests/ that end in `extension`, at most `most` bytes each.
inline std::vector<std::string> seed_files(const std::string& folder, const std::string& extension,
                                           size_t most = 8192) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(RAFTER_SOURCE_DIR) / "tests" / folder)) {
    const bool fits =
        entry.is_regular_file() && entry.path().extension() == extension && entry.file_size() <= most;
    if (fits) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) seeds.push_back(read_seed(path));
  return seeds;
}

}  // namespace rafter::testing
