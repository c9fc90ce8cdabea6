// Checks of compiled JSON schemas against cases with known answers and against random answers. The checkers
// take what they judge, so that faults can be put there.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/fake_engine.h"
#include "text/compiled_schema.h"

namespace rafter::text::testing {

using Json = nlohmann::ordered_json;
using Compiled = std::shared_ptr<const CompiledSchema>;

// What is judged: compiles a schema.
using Compile = std::function<base::Result<Compiled>(std::string_view schema, const TokenIndex& index)>;

inline std::vector<Json> schema_cases() {
  std::ifstream file(RAFTER_SOURCE_DIR "/tests/data/json_schema_cases.json");
  return Json::parse(file).get<std::vector<Json>>();
}

// Every byte a token, some words, and <end>.
inline const TokenIndex& byte_index() {
  static const TokenIndex index = [] {
    const Tokenizer tokenizer = decode::byte_tokenizer(
        {"{\"", "\":",  "\",\"", "true", "\"}",   "null",     "[]",     "]}",   ", \"", "\\\"",
         "\\n", "ab",   "abc",   "b\"",  "日",    "\xE6\x97", "\xA5\"", "12",   "123",  ".5",
         "0.",  "\n  ", "u00",   "e\":", "xyz\\", "\"a\":1",  "}}",     "日本", "name", "\\u"});
    const int32_t end = tokenizer.vocab_size() - 1;
    return TokenIndex::from(tokenizer, std::span(&end, 1)).value();
  }();
  return index;
}

// Whether the schema takes a text that is cut into these tokens, and may end there. Every token must be in
// the mask of the state before it.
inline bool takes(const CompiledSchema& schema, const std::vector<int32_t>& tokens) {
  SchemaState state = schema.start();
  for (int32_t token : tokens) {
    const bool is_allowed = schema.mask(state)->allows(token);
    if (schema.advance(state, token) != is_allowed) return false;
    if (!is_allowed) return false;
  }
  return schema.is_complete(state);
}

// The tokens that write a text, cut at random.
class RandomCutter {
 public:
  explicit RandomCutter(const TokenIndex& index) {
    for (int32_t id = 0; id < index.vocab_size(); ++id) {
      const std::string_view bytes = index.writes(id);
      if (bytes.empty()) continue;
      ids_[std::string(bytes)] = id;
      longest_ = std::max(longest_, bytes.size());
    }
  }
  std::vector<int32_t> cut(std::string_view text, std::mt19937& random) const {
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      std::vector<std::pair<size_t, int32_t>> choices;
      for (size_t size = 1; size <= std::min(longest_, text.size()); ++size) {
        const auto found = ids_.find(text.substr(0, size));
        if (found != ids_.end()) choices.emplace_back(size, found->second);
      }
      RAFTER_CHECK(!choices.empty());
      const auto& [size, id] = random() % 2 == 0 ? choices.back() : choices[random() % choices.size()];
      tokens.push_back(id);
      text.remove_prefix(size);
    }
    return tokens;
  }

 private:
  std::map<std::string, int32_t, std::less<>> ids_;
  size_t longest_ = 0;
};

// The cases of tests/data/json_schema_cases.json that come out wrong.
inline std::vector<std::string> wrong_cases(const Compile& compile, const TokenIndex& index) {
  std::vector<std::string> wrong;
  const RandomCutter cutter(index);
  std::mt19937 random(1);
  for (const Json& one : schema_cases()) {
    const std::string schema = one["schema"].dump();
    const auto compiled = compile(schema, index);
    if (one.contains("error")) {
      const std::string where = one["error"];
      if (compiled.ok()) {
        wrong.push_back(schema + ": was taken");
      } else if (!compiled.error().where.starts_with(where) ||
                 base::error_code_name(compiled.error().code) != one["code"].get<std::string>()) {
        wrong.push_back(schema + ": " + compiled.error().message());
      }
      continue;
    }
    if (!compiled.ok()) {
      wrong.push_back(schema + ": " + compiled.error().message());
      continue;
    }
    for (const char* kind : {"valid", "invalid"}) {
      for (const Json& text : one[kind]) {
        for (int i = 0; i < 3; ++i) {
          const bool is_taken = takes(**compiled, cutter.cut(text.get<std::string>(), random));
          if (is_taken != (std::string_view(kind) == "valid")) {
            wrong.push_back(schema + ": " + text.get<std::string>() + (is_taken ? " taken" : " refused"));
            break;
          }
        }
      }
    }
  }
  return wrong;
}

// How much a token ends.
inline int ending(std::string_view bytes) {
  int value = 0;
  for (char c : bytes) {
    value += c == '}' || c == ']' ? 3 : c == '"' ? 1 : c == '{' || c == '[' || c == ',' || c == '\\' ? -4 : 0;
  }
  return value;
}

// An answer by a model that knows nothing: any allowed token, with a liking for what ends things. Absent if
// `most` tokens did not end it.
inline std::optional<std::string> random_answer(const CompiledSchema& schema, std::mt19937& random,
                                                int most) {
  SchemaState state = schema.start();
  std::string text;
  for (int i = 0; i < most; ++i) {
    const auto mask = schema.mask(state);
    RAFTER_CHECK(mask->allowed() > 0, "nothing may follow {}", text);
    if (!schema.can_continue(state)) return text;
    const bool may_end = schema.is_complete(state);
    if (may_end && random() % 3 == 0) return text;
    // The best of some allowed tokens; the longer it takes, the more of them.
    std::vector<int32_t> ids = mask->allowed_ids();
    std::erase_if(ids, [&](int32_t id) { return schema.index().is_end(id); });
    std::optional<int32_t> choice;
    int best = 0;
    for (int tries = 0; tries <= i * i / 100 && tries < 3000 && !ids.empty(); ++tries) {
      const int32_t id = ids[random() % ids.size()];
      const int value = ending(schema.index().writes(id));
      if (!choice || value > best) choice = id, best = value;
    }
    RAFTER_CHECK(choice || may_end, "only an end may follow {}, and it may not", text);
    if (!choice) return text;
    RAFTER_CHECK(schema.advance(state, *choice));
    text += schema.index().writes(*choice);
  }
  return std::nullopt;
}

}  // namespace rafter::text::testing
