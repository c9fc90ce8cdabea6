#include "format/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/utf8.h"
#include "format/errors.h"

namespace rafter::format {
namespace {

// nlohmann's event interface. Its parser keeps one bit a level, so it is the handler that limits the depth.
class Handler {
 public:
  Handler(size_t max_depth, const std::string& where, JsonVisitor& visitor)
      : max_depth_(max_depth), where_(where), visitor_(visitor) {}

  base::Status take_status() { return std::move(status_); }

  bool null() { return scalar({JsonKind::null}); }
  bool boolean(bool value) { return scalar({JsonKind::boolean, value}); }
  bool number_integer(int64_t) { return scalar({JsonKind::number}); }
  bool number_unsigned(uint64_t value) { return scalar({JsonKind::integer, false, value}); }
  bool number_float(double, const std::string&) { return scalar({JsonKind::number}); }
  bool string(std::string& value) { return scalar({JsonKind::string, false, 0, value}); }
  bool binary(std::vector<uint8_t>&) { return false; }

  bool start_object(size_t) { return start(JsonKind::object); }
  bool start_array(size_t) { return start(JsonKind::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }

  // std::set: its cost does not depend on what an attacker makes the names hash to.
  bool key(std::string& name) {
    if (!levels_.back().keys.insert(name).second)
      return fail(invalid(where_, "duplicate key {}", printable(name)));
    path_.back() = name;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const std::exception&) {
    return fail(invalid(where_, "malformed JSON at byte {}", position));
  }

 private:
  struct Level {
    std::set<std::string> keys;
  };

  bool fail(base::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  bool scalar(const JsonEvent& event) {
    base::Status status = visitor_.value(path_, event);
    return status.ok() || fail(std::move(status));
  }

  bool start(JsonKind kind) {
    if (levels_.size() >= max_depth_)
      return fail(invalid(where_, "JSON nested deeper than {} levels", max_depth_));
    if (!scalar({kind})) return false;
    levels_.emplace_back();
    path_.emplace_back();
    return true;
  }

  bool end() {
    levels_.pop_back();
    path_.pop_back();
    base::Status status = visitor_.end(path_);
    return status.ok() || fail(std::move(status));
  }

  const size_t max_depth_;
  const std::string& where_;
  JsonVisitor& visitor_;
  std::vector<Level> levels_;
  std::vector<std::string> path_;  // one entry a level: the key being read, empty inside an array
  base::Status status_;
};

}  // namespace

base::Status parse_strict_json(std::string_view text, size_t max_depth, const std::string& where,
                               JsonVisitor& visitor) {
  if (!base::is_valid_utf8(text)) return invalid(where, "not valid UTF-8");
  // nlohmann's lexer takes a NUL for the end of its input.
  if (text.find('\0') != std::string_view::npos) return invalid(where, "a NUL byte inside JSON");
  Handler handler(max_depth, where, visitor);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) return {};
  base::Status status = handler.take_status();
  return status.ok() ? base::Status(invalid(where, "malformed JSON")) : status;
}

std::string quote_non_finite_numbers(std::string text) {
  constexpr std::string_view kNames[] = {"NaN", "Infinity", "-Infinity"};
  constexpr std::string_view kSpace = " \t\r\n";
  const std::string_view view = text;
  std::string quoted;
  size_t kept = 0;
  char before = '\0';  // the last character that is no white space
  for (size_t i = 0; i < view.size(); ++i) {
    if (view[i] == '"') {
      for (++i; i < view.size() && view[i] != '"'; ++i) {
        if (view[i] == '\\') ++i;
      }
      before = '"';
      continue;
    }
    if (kSpace.find(view[i]) != std::string_view::npos) continue;
    const bool starts_value = before == ':' || before == '[' || before == ',';
    before = view[i];
    if (!starts_value) continue;
    for (std::string_view name : kNames) {
      if (!view.substr(i).starts_with(name)) continue;
      const size_t next = view.find_first_not_of(kSpace, i + name.size());
      if (next == std::string_view::npos ||
          std::string_view(",]}").find(view[next]) == std::string_view::npos) {
        break;
      }
      quoted.append(view.substr(kept, i - kept)).append("\"").append(name).append("\"");
      kept = i + name.size();
      i = kept - 1;
      break;
    }
  }
  if (kept == 0) return text;
  return quoted.append(view.substr(kept));
}

}  // namespace rafter::format
