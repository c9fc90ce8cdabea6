// Recorded exchanges: a request, what the model says, and every field of the answer on the wire.
//
//   {"name", "method", "path", "body", "says": "text of the model", "status", "reply": {…}}     whole
//   {…, "events": [{"event": "name or empty", "data": {…} or "[DONE]"}, …]}                     SSE
//   {…, "lines": [{…}, …]}                                                                    JSON by lines
//
// Values that differ from run to run are recorded as "<id>", "<number>" and "<text>"; everything else has to
// be the same, the order of the members of objects aside: no field more, none less.
#pragma once

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "serve/proto/json.h"
#include "tests/support/wire_server.h"

namespace rafter::testing {

using serve::Json;

// The first place in which what came is not what is recorded; empty: none.
inline std::string first_difference(const Json& recorded, const Json& came, const std::string& place = "$") {
  const auto differs = [&](const std::string& what) { return place + ": " + what; };
  if (recorded == "<number>") return came.is_number() ? "" : differs("no number: " + came.dump());
  if (recorded == "<text>") return came.is_string() ? "" : differs("no text: " + came.dump());
  if (recorded == "<id>") {
    const bool is_id = came.is_string() && came.get_ref<const std::string&>().size() >= 8 &&
                       came.get_ref<const std::string&>().find(' ') == std::string::npos;
    return is_id ? "" : differs("no id: " + came.dump());
  }
  if (recorded.is_object() && came.is_object()) {
    for (const auto& [key, value] : recorded.items()) {
      if (!came.contains(key)) return differs("\"" + key + "\" is missing");
      if (const std::string inner = first_difference(value, came[key], place + "." + key); !inner.empty())
        return inner;
    }
    for (const auto& [key, value] : came.items()) {
      if (!recorded.contains(key)) return differs("\"" + key + "\" is new");
    }
    return "";
  }
  if (recorded.is_array() && came.is_array()) {
    for (size_t i = 0; i < std::min(recorded.size(), came.size()); ++i) {
      const std::string inner = first_difference(recorded[i], came[i], place + "[" + std::to_string(i) + "]");
      if (!inner.empty()) return inner;
    }
    if (recorded.size() == came.size()) return "";
    return differs(std::to_string(came.size()) + " elements, not " + std::to_string(recorded.size()));
  }
  if (recorded.type() == came.type() && recorded == came) return "";
  if (recorded.is_number() && came.is_number() && recorded == came) return "";
  return differs(came.dump() + ", not " + recorded.dump());
}

// What came, in the form in which it is recorded.
inline Json recorded_form(const WireReply& reply) {
  Json form = {{"status", reply.status}};
  const auto type = reply.headers.find("content-type");
  const std::string kind = type == reply.headers.end() ? "" : type->second;
  if (kind.starts_with("text/event-stream")) {
    form["events"] = Json::array();
    for (const auto& [event, data] : sse_events(reply.body)) {
      const Json parsed = Json::parse(data, nullptr, false);
      form["events"].push_back({{"event", event}, {"data", parsed.is_discarded() ? Json(data) : parsed}});
    }
  } else if (kind.starts_with("application/x-ndjson")) {
    form["lines"] = Json::array();
    std::istringstream lines(reply.body);
    for (std::string line; std::getline(lines, line);)
      form["lines"].push_back(Json::parse(line, nullptr, false));
  } else {
    form["reply"] = Json::parse(reply.body, nullptr, false);
  }
  return form;
}

// Puts placeholders where values differ from run to run: for making a record, which a person then reads.
inline void hide_what_varies(Json& json, const std::string& key = "") {
  static const char* const kIds[] = {"id", "item_id", "call_id", "tool_use_id", "previous_response_id"};
  const auto is_among = [&](const auto& names) {
    return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return key == name; });
  };
  static const char* const kNumbers[] = {"created",
                                         "created_at",
                                         "completed_at",
                                         "seed",
                                         "prompt_ms",
                                         "predicted_ms",
                                         "prompt_per_second",
                                         "predicted_per_second",
                                         "prompt_per_token_ms",
                                         "predicted_per_token_ms",
                                         "total_duration",
                                         "load_duration",
                                         "prompt_eval_duration",
                                         "eval_duration"};
  if (json.is_string() && is_among(kIds)) {
    json = "<id>";
  } else if (json.is_string() && (key == "created_at" || key == "modified_at" || key == "digest")) {
    json = "<text>";
  } else if (json.is_number() && is_among(kNumbers)) {
    json = "<number>";
  } else if (json.is_object()) {
    for (auto& [name, value] : json.items()) hide_what_varies(value, name);
  } else if (json.is_array()) {
    for (Json& value : json) hide_what_varies(value, key == "data" ? "" : key);
  }
}

}  // namespace rafter::testing
