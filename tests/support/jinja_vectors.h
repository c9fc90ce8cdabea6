// Compares a renderer of templates with what the reference rendered (oracle/jinja_vectors.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "text/chat_template.h"

namespace rafter::testing {

// The text, or nothing for an error. `variables` is a JSON object.
using Renderer =
    std::function<std::optional<std::string>(const std::string& source, const std::string& variables)>;

// The oracle's clock: 2025-07-04 15:06:07.000089, a Friday.
inline text::jinja::Now oracle_time() {
  text::jinja::Now now;
  now.time.tm_year = 125;
  now.time.tm_mon = 6;
  now.time.tm_mday = 4;
  now.time.tm_hour = 15;
  now.time.tm_min = 6;
  now.time.tm_sec = 7;
  now.time.tm_wday = 5;
  now.time.tm_yday = 184;
  now.microseconds = 89;
  return now;
}

inline std::optional<std::string> render(const std::string& source, const std::string& variables) {
  const auto chat = text::ChatTemplate::parse(source, "template");
  if (!chat.ok()) return std::nullopt;
  text::RenderOptions options;
  options.clock = oracle_time;
  auto rendered = chat->render_json(variables, options);
  return rendered.ok() ? std::optional(*rendered) : std::nullopt;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::filesystem::path jinja_data(const std::string& name) {
  return std::filesystem::path(RAFTER_SOURCE_DIR) / "tests/data/jinja" / name;
}

struct Comparison {
  size_t renders = 0;
  std::vector<std::string> wrong;  // what differs, in words
};

inline void compare(Comparison& result, const std::string& name, const std::optional<std::string>& expected,
                    const std::optional<std::string>& got) {
  ++result.renders;
  if (expected == got) return;
  result.wrong.push_back(name +
                         "\n  expected: " + (expected ? nlohmann::json(*expected).dump() : "an error") +
                         "\n  rendered: " + (got ? nlohmann::json(*got).dump() : "an error"));
}

// Every case of a file that `jinja_vectors.py cases` or `random` wrote.
inline Comparison compare_cases(const std::filesystem::path& path, const Renderer& renderer) {
  const auto file = nlohmann::ordered_json::parse(read_file(path));
  const std::string variables = file.at("variables").dump();
  Comparison result;
  for (const auto& [group, cases] : file.at("groups").items()) {
    for (const auto& row : cases) {
      const std::string source = row.at("template");
      const auto expected = row.contains("text") ? std::optional<std::string>(row.at("text")) : std::nullopt;
      compare(result, group + ": " + nlohmann::json(source).dump(), expected, renderer(source, variables));
    }
  }
  return result;
}

inline std::string length_and_hash(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001B3;
  return fmt::format("{}:{:016x}", text.size(), hash);
}

// The publishers' chat templates, which are not part of this project; an empty path if they are not beside
// it.
inline std::filesystem::path chat_template_folder() {
  const auto folder = std::filesystem::path(RAFTER_SOURCE_DIR) / "../shared/data/chat_templates";
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::path();
}

// The variables of each input of real.json, by name.
inline std::vector<std::pair<std::string, std::string>> real_inputs(const nlohmann::ordered_json& file) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const std::string name : file.at("inputs")) {
    const size_t slash = name.find('/');
    nlohmann::ordered_json variables = file.at("variants").at(name.substr(slash + 1));
    variables["messages"] = file.at("conversations").at(name.substr(0, slash));
    variables["bos_token"] = "<s>";
    variables["eos_token"] = "</s>";
    inputs.emplace_back(name, variables.dump());
  }
  return inputs;
}

// One real template with every input.
inline Comparison compare_real(const std::filesystem::path& source, const nlohmann::ordered_json& file,
                               const Renderer& renderer) {
  const std::string text = read_file(source);
  const auto& expected = file.at("templates").at(source.filename().string());
  Comparison result;
  size_t index = 0;
  for (const auto& [name, variables] : real_inputs(file)) {
    const auto got = renderer(text, variables);
    compare(result, source.filename().string() + " " + name, expected.at(index++).get<std::string>(),
            got ? length_and_hash(*got) : "error");
  }
  return result;
}

}  // namespace rafter::testing
