#include "cli/model_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/progress_bar.h"
#include "cli/terminal.h"

namespace rafter::cli {
namespace {

using Row = std::array<std::string, 9>;

constexpr size_t kShortRevision = 8;  // characters of a commit that are shown

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

// "135M", "8.0B"
std::string format_count(int64_t count) {
  const double value = static_cast<double>(count);
  if (count >= 999'500'000) return fmt::format("{:.1f}B", value / 1e9);
  return count >= 999'500 ? fmt::format("{:.0f}M", value / 1e6) : fmt::format("{:.0f}k", value / 1e3);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

// Towers that a checkpoint may have and this program does not run: it answers from the text alone.
bool is_unsupported(const std::string& capability) { return capability == "vision" || capability == "audio"; }

std::vector<std::string> capabilities_of(const store::ModelRecord& record, bool supported) {
  std::vector<std::string> some;
  for (const std::string& word : words_of(record.capabilities)) {
    if (is_unsupported(word) != supported) some.push_back(word);
  }
  return some;
}

// "chat tools (no vision)"
std::string shown_capabilities(const store::ModelRecord& record) {
  std::string shown;
  for (const std::string& word : capabilities_of(record, true)) shown += (shown.empty() ? "" : " ") + word;
  for (const std::string& word : capabilities_of(record, false)) {
    shown += (shown.empty() ? "(no " : " (no ") + word + ")";
  }
  return shown.empty() ? "-" : shown;
}

Row row_of(const store::ModelRecord& record) {
  std::string architecture = record.architecture;
  if (!record.supported) architecture += " (unsupported)";
  const size_t files = record.missing ? store::missing_files(record).size() : 0;
  if (record.missing) {
    architecture += files > 0 ? fmt::format(" ({} of {} files missing)", files, record.weight_files.size())
                              : std::string(" (missing)");
  }
  return {joined(record.aliases),
          record.name,
          architecture,
          format_count(record.parameters),
          record.quantization,
          format_bytes(record.bytes),
          record.context > 0 ? fmt::format("{}", record.context) : "-",
          shown_capabilities(record),
          record.revision.empty() ? "-" : record.revision.substr(0, kShortRevision)};
}

}  // namespace

std::string model_table(const std::vector<store::ModelRecord>& records) {
  if (records.empty()) return "no models; `rafter scan` looks for some, `rafter add NAME PATH` adds one\n";
  std::vector<Row> rows = {
      {"ALIAS", "NAME", "ARCHITECTURE", "PARAMS", "FORMAT", "SIZE", "CONTEXT", "CAN", "REVISION"}};
  for (const store::ModelRecord& record : records) rows.push_back(row_of(record));
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = one_line(row[i]);
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string table;
  for (size_t n = 0; n < rows.size(); ++n) {
    std::string line;
    for (size_t i = 0; i < rows[n].size(); ++i) {
      line += rows[n][i] + std::string(widths[i] - display_width(rows[n][i]) + 2, ' ');
    }
    table += line + (n == 0 ? "PATH" : one_line(records[n - 1].path)) + "\n";
  }
  return table;
}

std::string model_json(const std::vector<store::ModelRecord>& records) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const store::ModelRecord& record : records) {
    list.push_back(
        {{"name", record.name},
         {"aliases", record.aliases},
         {"path", record.path},
         {"container", record.container},
         {"architecture", record.architecture},
         {"supported", record.supported},
         {"quantization", record.quantization},
         {"parameters", record.parameters},
         {"bytes", record.bytes},
         {"context", record.context},
         {"capabilities", capabilities_of(record, true)},
         {"unsupported_capabilities", capabilities_of(record, false)},
         {"revision", record.revision},
         {"added_at", record.added_at},
         {"missing_files", record.missing ? store::missing_files(record) : std::vector<std::string>()},
         {"missing", record.missing}});
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rafter::cli
