// Random schemas that oracle/json_schema.py made, and its judgement of answers.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "tests/support/temp_folder.h"

namespace rafter::text::testing {

struct OracleCase {
  std::string schema;
  std::vector<std::string> valid;
};

// RAFTER_SCHEMAS names another file than the oracle's own: one made with another seed.
inline std::string oracle_cases_file() {
  const char* other = std::getenv("RAFTER_SCHEMAS");
  return other != nullptr ? other : RAFTER_SOURCE_DIR "/build/oracle/json_schema/random.jsonl";
}

inline std::vector<OracleCase> oracle_cases() {
  std::ifstream file(oracle_cases_file());
  std::vector<OracleCase> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json["schema"], json["valid"]});
  }
  return cases;
}

// RAFTER_ORACLE_PYTHON names another interpreter that has the library.
inline std::optional<std::string> oracle_python() {
  const char* other = std::getenv("RAFTER_ORACLE_PYTHON");
  const std::string path = other != nullptr ? other : RAFTER_SOURCE_DIR "/build/oracle/venv/bin/python";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

struct Answer {
  std::string schema, text;
};

// Empty if the library takes every answer to its schema; else what it says.
inline std::string faults_of(const std::vector<Answer>& answers) {
  const rafter::testing::TempFolder folder;
  const std::string path = (folder / "answers.jsonl");
  std::ofstream file(path);
  for (const Answer& answer : answers) {
    file << nlohmann::json{{"schema", answer.schema}, {"text", answer.text}}.dump() << "\n";
  }
  file.close();
  const std::string command =
      *oracle_python() + " " RAFTER_SOURCE_DIR "/oracle/json_schema.py check " + path + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t size = 0; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, size);
  const int status = pclose(pipe);
  const bool is_good = status == 0 && output == std::to_string(answers.size()) + "\n";
  return is_good ? "" : output + "(exit status " + std::to_string(status) + ")";
}

}  // namespace rafter::text::testing
