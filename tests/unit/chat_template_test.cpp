// Real chat templates, and the interface around the engine.
#include "text/chat_template.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "tests/support/jinja_vectors.h"

namespace rafter::text {
namespace {

using testing::chat_template_folder;
using testing::jinja_data;
using testing::read_file;

class RealTemplates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (chat_template_folder().empty())
      GTEST_SKIP() << "the publishers' chat templates are not beside the source";
    file_ = nlohmann::ordered_json::parse(read_file(jinja_data("real.json")));
  }

  nlohmann::ordered_json file_;
};

TEST_F(RealTemplates, RenderAsTheReference) {
  size_t templates = 0;
  for (const auto& [name, expected] : file_.at("templates").items()) {
    const auto path = chat_template_folder() / name;
    ASSERT_TRUE(std::filesystem::exists(path)) << name;
    const auto result = testing::compare_real(path, file_, testing::render);
    EXPECT_EQ(result.renders, expected.size());
    EXPECT_TRUE(result.wrong.empty()) << result.wrong.size() << " renders differ\n" << result.wrong.front();
    ++templates;
  }
  EXPECT_EQ(templates, 20u);
}

// A template that calls raise_exception refuses in its own words, and as a fault of the request.
TEST_F(RealTemplates, RefuseAsTheReference) {
  const auto inputs = testing::real_inputs(file_);
  size_t refusals = 0;
  for (const auto& [name, expected] : file_.at("refusals").items()) {
    const auto chat = ChatTemplate::parse(read_file(chat_template_folder() / name), name);
    ASSERT_TRUE(chat.ok()) << name;
    for (const auto& [input, variables] : inputs) {
      const auto rendered = chat->render_json(variables);
      const bool is_refused = !rendered.ok() && rendered.error().code == base::ErrorCode::invalid_argument;
      ASSERT_EQ(is_refused, expected.contains(input)) << name << " " << input;
      if (!is_refused) continue;
      EXPECT_EQ(rendered.error().what, expected.at(input).get<std::string>()) << name << " " << input;
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 100u);
}

// Inputs are marked as such, whatever the template does to them; the template's own text never is.
TEST_F(RealTemplates, KnowInputsFromTemplateText) {
  const std::string sentinel = "\xEE\x80\x81";  // U+E001, which no template writes
  for (const auto& [name, expected] : file_.at("templates").items()) {
    auto chat = ChatTemplate::parse(read_file(chat_template_folder() / name), name);
    ASSERT_TRUE(chat.ok());
    const std::string json =
        R"({"messages": [{"role": "user", "content": "a#b#"}, {"role": "assistant", "content": "#c"},
        {"role": "user", "content": "##"}], "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
        "tools": [{"type": "function", "function": {"name": "f", "description": "#", "parameters":
        {"type": "object", "properties": {"p": {"type": "string", "description": "#x"}}}}}]})";
    std::string variables;
    for (char c : json) c == '#' ? variables += sentinel : variables += c;
    const auto rendered = chat->render_json_marked(variables);
    ASSERT_TRUE(rendered.ok()) << rendered.error().message();
    size_t found = 0;
    for (size_t at = rendered->text.find(sentinel); at != std::string::npos;
         at = rendered->text.find(sentinel, at + 1), ++found) {
      const bool inside = std::any_of(
          rendered->input.begin(), rendered->input.end(),
          [&](const ByteRange& range) { return range.begin <= at && at + sentinel.size() <= range.end; });
      EXPECT_TRUE(inside) << name << " at byte " << at;
    }
    EXPECT_GE(found, 4u) << name;
    for (const ByteRange& range : rendered->input) {
      EXPECT_EQ(rendered->text.substr(range.begin, range.end - range.begin).find("<|im_"), std::string::npos)
          << name;
      EXPECT_TRUE(base::is_valid_utf8(rendered->text.substr(range.begin, range.end - range.begin))) << name;
    }
  }
}

std::string marked(std::string_view source, std::string_view variables) {
  auto chat = ChatTemplate::parse(source, "t");
  if (!chat.ok()) return chat.error().message();
  auto rendered = chat->render_json_marked(variables);
  if (!rendered.ok()) return rendered.error().message();
  std::string text = rendered->text;
  for (auto range = rendered->input.rbegin(); range != rendered->input.rend(); ++range) {
    text.insert(range->end, "]");
    text.insert(range->begin, "[");
  }
  return text;
}

TEST(ChatTemplate, MarksWhatCameFromInputs) {
  const std::string_view variables =
      R"({"s": "héllo wörld", "l": ["a", "b"], "d": {"k": "v\n"}, "n": 5, "bos_token": "<s>"})";
  EXPECT_EQ(marked("{{ bos_token }}<{{ s }}>{{ n }}", variables), "<s><[héllo wörld]>5");
  EXPECT_EQ(marked("{{ ('<' + s[1:4] ~ '>') | upper }}", variables), "<[ÉLL]>");
  EXPECT_EQ(marked("{{ s.split(' ') | join('|') }}", variables), "[héllo]|[wörld]");
  EXPECT_EQ(marked("{{ s | replace('l', '-') }}", variables), "[hé]--[o wör]-[d]");
  EXPECT_EQ(marked("{{ 'xyz'.replace('y', s) }}", variables), "x[héllo wörld]z");
  EXPECT_EQ(marked("{{ d | tojson }}", variables), "{\"[k]\": \"[v\\n]\"}");
  EXPECT_EQ(marked("{{ d }}{{ l }}", variables), "{'[k]': '[v\\n]'}['[a]', '[b]']");
  EXPECT_EQ(marked("{{ '%s-%5s' % (l[0], l[1]) }}{{ '{}+{:>3}'.format(l[0], l[1]) }}", variables),
            "[a]-    [ba]+  [b]");
  EXPECT_EQ(
      marked("{% set x %}({{ s | trim | capitalize }}){% endset %}{{ x | indent(2, true) }}", variables),
      "  ([Héllo wörld])");
  EXPECT_EQ(marked("{% for c in l[0] ~ 'q' %}{{ c }}.{% endfor %}", variables), "[a].q.");
  EXPECT_EQ(marked("{{ s | title }}{{ s | reverse }}{{ l[0] * 2 }}", variables),
            "[Héllo Wörlddlröw olléhaa]");
}

TEST(ChatTemplate, TokensAreTrustedByName) {
  EXPECT_EQ(marked("{{ eos_token }}{{ token }}{{ m[0].eos_token }}",
                   R"({"eos_token": "</s>", "token": "t", "m": [{"eos_token": "x"}]})"),
            "</s>[tx]");
}

TEST(ChatTemplate, ReportsGenerations) {
  auto chat = ChatTemplate::parse(
      "{% for m in messages %}<{% generation %}{{ m }}{% endgeneration %}>{% endfor %}", "t");
  ASSERT_TRUE(chat.ok());
  auto rendered = chat->render_json_marked(R"({"messages": ["ab", "é"]})");
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->text, "<ab><é>");
  EXPECT_EQ(rendered->generations, (std::vector<ByteRange>{{1, 3}, {5, 7}}));
}

TEST(ChatTemplate, ErrorsNameTheTemplateItsLineAndTheCause) {
  auto broken = ChatTemplate::parse("a\nb\n{% if x %}", "m.jinja");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, base::ErrorCode::invalid_data);
  EXPECT_EQ(broken.error().where, "m.jinja:3");
  EXPECT_NE(broken.error().what.find("endif"), std::string::npos);

  auto refusing =
      ChatTemplate::parse("a\n{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}", "m.jinja");
  ASSERT_TRUE(refusing.ok());
  auto refused = refusing->render_json(R"({"messages": [{"role": "critic"}]})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().what, "Roles must alternate: critic");
  EXPECT_EQ(refused.error().where, "m.jinja:2");

  auto missing =
      ChatTemplate::parse("{% for m in messages %}\n{{ m.content + '\\n' }}{% endfor %}", "m.jinja");
  ASSERT_TRUE(missing.ok());
  auto failed = missing->render_json(R"({"messages": [{}]})");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, base::ErrorCode::invalid_data);
  EXPECT_EQ(failed.error().what, "'dict object' has no attribute 'content'");
  EXPECT_EQ(failed.error().where, "m.jinja:2");
}

TEST(ChatTemplate, RefusesWhatIsNoTemplateAndNoInput) {
  EXPECT_FALSE(ChatTemplate::parse("a\xFF", "t").ok());
  EXPECT_FALSE(ChatTemplate::parse(std::string((1 << 20) + 1, 'a'), "t").ok());
  auto chat = ChatTemplate::parse("x", "t");
  ASSERT_TRUE(chat.ok());
  EXPECT_FALSE(chat->render_json("[]").ok());
  EXPECT_FALSE(chat->render_json("{").ok());
  EXPECT_FALSE(chat->render_json("{\"a\": \"\\ud800\"}").ok());
  EXPECT_FALSE(chat->render_json("{\"a\": " + std::string(9999, '[') + std::string(9999, ']') + "}").ok());
  EXPECT_FALSE(chat->render(Value::integer(1)).ok());
}

TEST(ChatTemplate, TakesValuesBuiltWithoutJson) {
  const Value message = Value::dict({{"role", Value::string("user")}, {"content", Value::string("a\xFF")}});
  const Value variables = Value::dict({{"messages", Value::list({message})},
                                       {"bos_token", Value::string("<s>", Origin::trusted)},
                                       {"temperature", Value::real(1)}});
  auto chat = ChatTemplate::parse("{{ bos_token }}{{ messages | tojson }}{{ temperature }}", "t");
  ASSERT_TRUE(chat.ok());
  auto rendered = chat->render(variables);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->text, "<s>[{\"role\": \"user\", \"content\": \"a\xEF\xBF\xBD\"}]1.0");
}

TEST(ChatTemplate, KeepsNumbersAndKeyOrderOfJson) {
  auto chat = ChatTemplate::parse("{{ x | tojson }}{{ x }}", "t");
  ASSERT_TRUE(chat.ok());
  const auto rendered =
      chat->render_json(R"({"x": {"z": 1, "a": 1.0, "m": 9007199254740993, "z": 2, "e": 1e16}})");
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(*rendered,
            "{\"z\": 2, \"a\": 1.0, \"m\": 9007199254740993, \"e\": 1e+16}"
            "{'z': 2, 'a': 1.0, 'm': 9007199254740993, 'e': 1e+16}");
}

TEST(ChatTemplate, ThreadsShareOneTemplate) {
  auto chat = ChatTemplate::parse("{% for i in range(200) %}{{ ('a' ~ i) | upper }}{{ s }}{% endfor %}", "t");
  ASSERT_TRUE(chat.ok());
  const Value variables = Value::dict({{"s", Value::string("x")}});
  const std::string expected = chat->render(variables)->text;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) EXPECT_EQ(chat->render(variables)->text, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rafter::text
