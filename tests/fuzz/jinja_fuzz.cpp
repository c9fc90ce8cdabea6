// Any text as a chat template, rendered over a small conversation: an error or a text, in bounded time and
// memory.
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "tests/fuzz/seeds.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter::text;
  const auto chat = ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!chat.ok()) {
    RAFTER_CHECK(!chat.error().what.empty());
    return 0;
  }
  RenderOptions options;
  options.limits.steps = 100'000;
  options.limits.live_bytes = size_t{16} << 20;
  options.allow_mutation = size % 2 == 0;
  const auto rendered = chat->render_json_marked(
      R"({"messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": null, "tool_calls":
          [{"id": "1", "function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}], "s": "a,b", "l": [3, 1, 2],
          "d": {"k": 1}, "tools": [], "add_generation_prompt": true, "bos_token": "<s>"})",
      options);
  if (!rendered.ok()) return 0;
  size_t end = 0;
  for (const ByteRange& range : rendered->input) {
    RAFTER_CHECK(range.begin < range.end && (end == 0 || range.begin > end) &&
                 range.end <= rendered->text.size());
    end = range.end;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const auto file = nlohmann::json::parse(
      rafter::testing::read_seed(std::filesystem::path(RAFTER_SOURCE_DIR) / "tests/data/jinja/cases.json"));
  std::vector<std::string> seeds;
  for (const auto& group : file.at("groups")) {
    for (const auto& row : group) seeds.push_back(row.at("template"));
  }
  return seeds;
}
