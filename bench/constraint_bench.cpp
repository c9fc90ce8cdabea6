// Cost of constrained decoding per token, on one core.
//
//   constraint_bench TOKENIZER [answers]
//
// TOKENIZER is a tokenizer.json, or a folder or GGUF file that has one. Prints how long the index of the
// vocabulary takes to build; then for schemas of several kinds how long one takes to compile, and of random
// answers the microseconds per token of finding the mask and of applying it to logits: of configurations that
// were never met (the first answer to a schema) and of later answers, which meet few new ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <time.h>

#include "decode/open_tokenizer.h"
#include "text/compiled_schema.h"

namespace {

using namespace rafter;

// By the thread's own clock, so that a busy machine says the same.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}
double microseconds_since(double begin) { return now() - begin; }

struct NamedSchema {
  const char* name;
  const char* json;
};
constexpr NamedSchema kSchemas[] = {
    {"any object", R"({"type":"object"})"},
    {"person", R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
      "maximum":130},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},
      "maxItems":8}},"required":["name","age"],"additionalProperties":false})"},
    {"tool call", R"({"type":"object","properties":{"name":{"enum":["get_weather","search","send_mail"]},
      "arguments":{"type":"object","properties":{"city":{"type":"string","maxLength":80},"unit":{"enum":["C","F"]},
      "days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"]}},"required":["name","arguments"]})"},
    {"tree",
     R"({"$defs":{"node":{"type":"object","properties":{"label":{"type":"string"},"value":{"type":"number"},
      "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["label","children"]}},
      "$ref":"#/$defs/node"})"},
    {"choices", R"({"type":"array","items":{"anyOf":[{"type":"object","properties":{"kind":{"const":"text"},
      "text":{"type":"string","minLength":1,"maxLength":500}},"required":["kind","text"]},{"type":"object",
      "properties":{"kind":{"const":"date"},"date":{"type":"string","format":"date-time"}},"required":["kind","date"]},
      {"type":"object","properties":{"kind":{"const":"code"},"id":{"type":"string","pattern":"^[a-z]{2,8}-[0-9]+$"},
      "score":{"type":"number","minimum":0,"maximum":1}},"required":["kind","id"]}]}})"},
};

struct Times {
  std::vector<double> find, apply;

  static void print(const char* what, std::vector<double>& times) {
    if (times.empty()) return;
    std::sort(times.begin(), times.end());
    std::printf("  %s median %7.1f  p99 %7.1f  max %7.1f", what, times[times.size() / 2],
                times[times.size() * 99 / 100], times.back());
  }
};

// A random answer of at most 200 tokens: a few words in each string.
void answer(const text::CompiledSchema& schema, std::mt19937& random, std::vector<float>& logits,
            Times& times) {
  constexpr int kMostTokens = 200;
  text::SchemaState state = schema.start();
  for (int i = 0; i < kMostTokens && schema.can_continue(state); ++i) {
    auto begin = now();
    const auto mask = schema.mask(state);
    times.find.push_back(microseconds_since(begin));
    std::fill(logits.begin(), logits.end(), 1.0f);
    begin = now();
    mask->apply(logits);
    times.apply.push_back(microseconds_since(begin));
    const auto size = static_cast<int32_t>(logits.size());
    const auto start = static_cast<int32_t>(random() % logits.size());
    const bool closes = random() % 4 == 0;
    int32_t choice = -1;
    for (int32_t n = 0; n < size; ++n) {
      const int32_t id = (start + n) % size;
      if (logits[static_cast<size_t>(id)] != 1.0f || schema.index().is_end(id)) continue;
      const std::string_view bytes = schema.index().writes(id);
      choice = id;
      if (!closes || bytes[0] == '"' || bytes[0] == '}' || bytes[0] == ']') break;
    }
    if (choice < 0 || !schema.advance(state, choice)) return;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: constraint_bench TOKENIZER [answers]\n");
    return 2;
  }
  const auto tokenizer = decode::open_tokenizer(arguments[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message().c_str());
    return 1;
  }
  auto begin = now();
  std::vector<int32_t> ends;
  for (int32_t id = 0; id < tokenizer->vocab_size() && ends.empty(); ++id) {
    if (tokenizer->is_special(id)) ends.push_back(id);
  }
  const auto index = text::TokenIndex::from(*tokenizer, ends);
  if (!index.ok()) {
    std::fprintf(stderr, "%s\n", index.error().message().c_str());
    return 1;
  }
  std::printf("vocabulary %d, index in %.0f ms; microseconds per token:\n", index->vocab_size(),
              microseconds_since(begin) / 1e3);
  std::vector<float> logits(static_cast<size_t>(index->vocab_size()));
  for (const NamedSchema& named : kSchemas) {
    begin = now();
    const auto schema = text::compile_json_schema(named.json, *index);
    if (!schema.ok()) {
      std::fprintf(stderr, "%s\n", schema.error().message().c_str());
      return 1;
    }
    std::printf("%-10s compiled in %.1f ms\n", named.name, microseconds_since(begin) / 1e3);
    std::mt19937 random(1);
    Times first, later;
    answer(**schema, random, logits, first);
    const int answers = count > 2 ? std::atoi(arguments[2]) : 50;
    for (int i = 0; i < answers; ++i) answer(**schema, random, logits, later);
    Times::print("first answer: find", first.find);
    std::printf("\n");
    Times::print("later answers: find", later.find);
    Times::print("apply", later.apply);
    std::printf("\n");
  }
  return 0;
}
