// Every protocol's recorded exchanges (tests/wire/exchanges/*.json), compared field by field.
//
// RAFTER_RECORD=1 writes what came into the files instead; read the difference before it is committed.
#include "tests/support/exchange.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace rafter::testing {
namespace {

// Reasoning and Hermes' calls.
constexpr const char* kTemplate =
    "{%- for m in messages %}<|im_start|>{{ m.role }}{{ '\\n' }}"
    "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{%- for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>{{ "
    "'\\n' }}"
    "{%- endfor %}{%- if tools %}{{ tools | tojson }}{% endif %}<|im_start|>assistant{{ '\\n' }}";

// An exchange by fields, an event by lines: so that differences can be read.
std::string text_of(const Json& record) {
  std::string text = std::string("{\"embeds\": ") + (record.value("embeds", false) ? "true" : "false") +
                     ", \"exchanges\": [";
  for (size_t i = 0; i < record["exchanges"].size(); ++i) {
    text += i == 0 ? "\n{" : ",\n{";
    for (const auto& [key, value] : record["exchanges"][i].items()) {
      text += (text.ends_with('{') ? "" : ",\n ") + Json(key).dump() + ": ";
      if (key != "events" && key != "lines") {
        text += value.dump();
        continue;
      }
      for (size_t n = 0; n < value.size(); ++n) text += (n == 0 ? "[\n  " : ",\n  ") + value[n].dump();
      text += "]";
    }
    text += "}";
  }
  return text + "\n]}\n";
}

class Exchanges : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Exchanges, AreAsTheyWereRecorded) {
  Json record = Json::parse(std::ifstream(GetParam()));
  WireOptions options;
  options.chat_template = kTemplate;
  WireServer server(options);
  server.on_loop(
      [&](FakeService& service) { service.known_facts->is_embedder = record.value("embeds", false); });
  const bool is_recording = std::getenv("RAFTER_RECORD") != nullptr;
  std::string id;  // of the last answer, for requests that refer to it
  for (Json& exchange : record["exchanges"]) {
    SCOPED_TRACE(exchange["name"].get<std::string>());
    server.answer({.text = exchange.value("says", ""), .cached = exchange.value("cached", 0)});
    std::string body = exchange.contains("body") ? exchange["body"].dump() : "";
    if (const size_t at = body.find("<last id>"); at != std::string::npos) body.replace(at, 9, id);
    std::string path = exchange["path"];
    if (const size_t at = path.find("<last id>"); at != std::string::npos) path.replace(at, 9, id);
    const WireReply reply = request(server.port(), exchange["method"], path, body);
    const Json came = recorded_form(reply);
    if (came.contains("reply") && came["reply"].is_object()) id = came["reply"].value("id", "");
    if (is_recording) {
      for (const char* key : {"status", "reply", "events", "lines"}) exchange.erase(key);
      for (const auto& [key, value] : came.items()) {
        exchange[key] = value;
        hide_what_varies(exchange[key]);
      }
      continue;
    }
    for (const auto& [key, value] : came.items())
      EXPECT_EQ(first_difference(exchange.value(key, Json(nullptr)), value, key), "");
  }
  if (is_recording) std::ofstream(GetParam()) << text_of(record);
}

std::vector<std::filesystem::path> records() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(RAFTER_SOURCE_DIR "/tests/wire/exchanges"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(All, Exchanges, ::testing::ValuesIn(records()),
                         [](const auto& one) { return one.param.stem().string(); });

}  // namespace
}  // namespace rafter::testing
