// Planted faults that the template comparers must catch.
#include <regex>

#include <gtest/gtest.h>

#include "tests/support/jinja_vectors.h"

namespace rafter::text {
namespace {

using testing::Renderer;
using Text = std::optional<std::string>;

// An engine that is right except that it reads another template.
Renderer reading(const std::string& pattern, const std::string& replacement) {
  return [=](const std::string& source, const std::string& variables) {
    return testing::render(std::regex_replace(source, std::regex(pattern), replacement), variables);
  };
}

// An engine that is right except that it writes something else.
Renderer writing(const std::function<Text(Text)>& fault) {
  return [=](const std::string& source, const std::string& variables) {
    return fault(testing::render(source, variables));
  };
}

Renderer replacing_output(const std::string& pattern, const std::string& replacement) {
  return writing([=](Text text) {
    return text ? Text(std::regex_replace(*text, std::regex(pattern), replacement)) : text;
  });
}

struct Fault {
  std::string name;
  Renderer renderer;
};

std::vector<Fault> faults() {
  return {
      {"trim_blocks is off", reading("%\\}\n", "+%}\n")},
      {"lstrip_blocks is off", reading("\\{%(?![-+])", "{%+")},
      {"-%} keeps whitespace", reading("-%\\}", "%}")},
      {"one trailing newline is kept", reading("\n$", "\n\n")},
      {"// truncates", reading("-7 // 2", "-3")},
      {"% has the dividend's sign", reading("-7 % 3", "-1")},
      {"** is right-associative", reading("2 \\*\\* 3 \\*\\* 2", "2 ** (3 ** 2)")},
      {"a loop's set leaks",
       reading("\\{% set i = i \\+ x %\\}\\{% endfor %\\}", "{% endfor %}{% set i = 6 %}")},
      {"filters bind loosely", reading("'a' \\+ ' b ' \\| trim", "('a' + ' b ') | trim")},
      {"unique minds case", reading("unique \\|", "unique(true) |")},
      {"sort minds case",
       reading("\\['b','C','a'\\] \\| sort ", "['b','C','a'] | sort(case_sensitive=true) ")},
      {"dictsort keeps the order", reading("\\| dictsort %", "| items %")},
      {"tojson is compact", reading("tojson \\}", "tojson(separators=(',', ':')) }")},
      {"tojson is ASCII", reading("tojson \\}", "tojson(ensure_ascii=true) }")},
      {"indent indents blank lines", reading("indent\\(2\\)", "indent(2, blank=true)")},
      {"default replaces none", reading("none \\| default\\('d'\\)", "'d'")},
      {"strings slice by bytes", reading("'héllo'\\[:-1\\]", "'hél'")},
      {"round half up", reading("2.5 \\| round", "3.0")},
      {"booleans print as in JSON", replacing_output("True", "true")},
      {"none prints as nothing", replacing_output("None", "")},
      {"floats lose their point", replacing_output("1\\.0", "1")},
      {"safe is the identity", reading("\\('<' \\| safe\\) \\+ '<'", "'<<'")},
      {"undefined prints its name", reading("\\{\\{ x \\}\\}", "x")},
      {"macros see the caller's loop", reading("macro f\\(\\) %\\}\\{\\{ x \\}\\}", "macro f() %}1")},
      {"the condition of a loop is ignored", reading(" if x is even %", " %")},
      {"a loop looks ahead at once", reading("loop.nextitem", "loop.previtem")},
      {"an error renders as nothing", writing([](Text text) { return text ? text : Text(""); })},
      {"everything is an error", writing([](Text) { return Text(); })},
  };
}

TEST(JinjaMutants, EachFaultFailsSomeCase) {
  const auto sound = testing::compare_cases(testing::jinja_data("cases.json"), testing::render);
  ASSERT_TRUE(sound.wrong.empty()) << sound.wrong.front();
  for (const Fault& fault : faults()) {
    const auto result = testing::compare_cases(testing::jinja_data("cases.json"), fault.renderer);
    EXPECT_FALSE(result.wrong.empty()) << fault.name << " goes unnoticed";
  }
}

TEST(JinjaMutants, OneByteFailsARealRender) {
  if (testing::chat_template_folder().empty())
    GTEST_SKIP() << "the publishers' chat templates are not beside the source";
  const auto file = nlohmann::ordered_json::parse(testing::read_file(testing::jinja_data("real.json")));
  const auto path = testing::chat_template_folder() / "Qwen-Qwen3-0.6B.jinja";
  const auto sound = testing::compare_real(path, file, testing::render);
  ASSERT_TRUE(sound.wrong.empty());
  const auto changed = testing::compare_real(path, file, writing([](Text text) {
                                               if (text && !text->empty()) text->back() ^= 1;
                                               return text;
                                             }));
  const auto longer = testing::compare_real(
      path, file, writing([](Text text) { return text && !text->empty() ? *text + "\n" : text; }));
  const auto silent =
      testing::compare_real(path, file, writing([](Text text) { return text ? text : Text(""); }));
  EXPECT_EQ(changed.wrong.size(), longer.wrong.size());
  EXPECT_GT(changed.wrong.size(), 50u);
  EXPECT_GT(silent.wrong.size(), 5u);
}

}  // namespace
}  // namespace rafter::text
