// What every stream of /v1/chat/completions must be, whatever the model says in it.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "serve/proto/json.h"

namespace rafter::testing {

// The first fault of a complete stream's bytes; empty if there is none. The grammar: comments anywhere; a
// chunk with the role and empty content; chunks with text or calls; one with the finish reason and an empty
// delta; perhaps one without choices and with usage; [DONE]. All with the same id and time.
inline std::string stream_fault(const std::string& bytes) {
  enum class Place { role, deltas, usage, done };
  Place place = Place::role;
  serve::Json first;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t end = bytes.find("\n\n", at);
    if (end == std::string::npos) return "an event without its end";
    const std::string event = bytes.substr(at, end - at);
    at = end + 2;
    if (place == Place::done) return "something behind [DONE]";
    if (event.starts_with(":") && event.find('\n') == std::string::npos) continue;
    constexpr std::string_view kData = "data: ";
    if (!event.starts_with(kData) || event.find('\n') != std::string::npos)
      return "an event that is no line of data";
    const std::string data = event.substr(kData.size());
    if (data == "[DONE]") {
      if (place != Place::usage) return "[DONE] before the finish reason";
      place = Place::done;
      continue;
    }
    const serve::Json chunk = serve::Json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!chunk.is_object()) return "data that is no JSON object";
    if (chunk.value("object", "") != "chat.completion.chunk") return "another object";
    if (place == Place::role) first = chunk;
    for (const char* key : {"id", "created", "model"}) {
      if (!chunk.contains(key) || chunk[key] != first[key]) return fmt::format("another {}", key);
    }
    if (!chunk.contains("choices") || !chunk["choices"].is_array()) return "no choices";
    const serve::Json& choices = chunk["choices"];
    if (choices.empty()) {
      if (place != Place::usage || !chunk.contains("usage")) return "a chunk without choices or usage";
      continue;
    }
    if (place == Place::usage) return "a choice behind the finish reason";
    const serve::Json& choice = choices[0];
    if (choices.size() != 1 || choice.value("index", -1) != 0 || !choice.contains("delta"))
      return "not one choice";
    const serve::Json& delta = choice["delta"];
    if ((place == Place::role) != delta.contains("role")) return "a role that is missing, or comes again";
    place = Place::deltas;
    if (!choice.contains("finish_reason")) return "no finish reason, not even null";
    if (choice["finish_reason"].is_null()) continue;
    if (!delta.empty()) return "text beside the finish reason";
    place = Place::usage;
  }
  return place == Place::done ? "" : "no [DONE]";
}

}  // namespace rafter::testing
