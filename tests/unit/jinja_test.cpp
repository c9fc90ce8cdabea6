// The template engine against the reference, and within its bounds.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/jinja_vectors.h"
#include "text/chat_template.h"

namespace rafter::text {
namespace {

using testing::compare_cases;
using testing::jinja_data;

std::string first_few(const std::vector<std::string>& wrong) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(wrong.size(), 10); ++i) text += wrong[i] + "\n";
  return text;
}

TEST(Jinja, HandWrittenCasesRenderAsTheReference) {
  const auto result = compare_cases(jinja_data("cases.json"), testing::render);
  EXPECT_GE(result.renders, 290u);
  EXPECT_TRUE(result.wrong.empty()) << result.wrong.size() << " differ\n" << first_few(result.wrong);
}

TEST(Jinja, RandomCasesRenderAsTheReference) {
  const char* named = std::getenv("RAFTER_JINJA_CASES");
  const std::string path = named != nullptr ? named : RAFTER_SOURCE_DIR "/build/oracle/jinja/random.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: run make oracle";
  const auto result = compare_cases(path, testing::render);
  EXPECT_GT(result.renders, 0u);
  EXPECT_TRUE(result.wrong.empty()) << result.wrong.size() << " of " << result.renders << " differ\n"
                                    << first_few(result.wrong);
}

base::Result<std::string> render(std::string_view source, std::string_view variables = "{}",
                                 const RenderOptions& options = {}) {
  auto chat = ChatTemplate::parse(source, "t.jinja");
  if (!chat.ok()) return chat.error();
  return chat->render_json(variables, options);
}

std::string text_of(std::string_view source, std::string_view variables = "{}",
                    const RenderOptions& options = {}) {
  auto rendered = render(source, variables, options);
  return rendered.ok() ? *rendered : "error: " + rendered.error().message();
}

std::string repeated(std::string_view piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

// What runs into a bound must say so, quickly. Whether it does so without harm is for the sanitizers.
TEST(Jinja, HostileTemplatesAreErrors) {
  const std::string doubling =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  const std::string nesting = "{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}";
  const std::vector<std::string> sources = {
      "{{ " + repeated("(", 9999) + "1" + repeated(")", 9999) + " }}",
      "{{ " + repeated("[", 9999) + repeated("]", 9999) + " }}",
      "{{ " + repeated("not ", 9999) + "1 }}",
      "{{ " + repeated("- ", 9999) + "1 }}",
      "{{ 1" + repeated(" + 1", 9999) + " }}",
      "{{ 1" + repeated(" | abs", 9999) + " }}",
      "{{ x" + repeated(".a", 9999) + " }}",
      "{{ " + repeated("1 if 0 else ", 9999) + "2 }}",
      "{% set " + repeated("(", 9999) + "a" + repeated(")", 9999) + " = 1 %}",
      repeated("{% if 1 %}", 9999) + repeated("{% endif %}", 9999),
      repeated("{# ", 999999),
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% for i in [1] %}{% if 1 %}{{ ('a' ~ f()) | upper }}{% endif %}{% endfor %}{% "
      "endmacro %}{{ f() }}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n }}{% endmacro %}{{ f(90) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(100001) }}",
      "{{ 'a' * 10000000000 }}",
      "{{ [1] * 10000000000 }}",
      "{{ 'a'.ljust(100000000000) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '%.1000000000f' % 1 }}",
      "{{ range(99999) | join('a' * 99999) }}",
      "{{ ('a\\n' * 99999) | indent(99999) }}",
      "{{ [[[1]]] | tojson(indent=100000000000) }}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x, 'a' * 999999] %}{% "
      "endfor %}",
      doubling + "{{ ns.x }}",
      doubling + "{{ ns.x | tojson }}",
      doubling + "{{ ns.x == ns.y }}",
      doubling + "{{ ns.x < ns.y }}",
      nesting + "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      nesting + "{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}",
      nesting + "{% set ns.x = namespace(y=ns.x) %}{% endfor %}{{ ns.x }}",
      nesting + "{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}",
      nesting + "{% set ns.x = cycler(ns.x) %}{% endfor %}",
      "{{ 9 ** 99999 }}",
      "{{ -9223372036854775807 - 2 }}",
  };
  RenderOptions options;
  options.limits.steps = 3'000'000;
  for (const std::string& source : sources) {
    const auto rendered = render(source, "{}", options);
    ASSERT_FALSE(rendered.ok()) << source.substr(0, 100) << " rendered " << rendered->substr(0, 100);
    EXPECT_FALSE(rendered.error().what.empty());
  }
}

TEST(Jinja, BoundsAreThoseOfTheOptions) {
  RenderOptions options;
  options.limits.output_bytes = 10;
  EXPECT_EQ(text_of("{{ 'a' * 10 }}", "{}", options), "aaaaaaaaaa");
  EXPECT_FALSE(render("{{ 'a' * 11 }}", "{}", options).ok());
  options = {};
  options.limits.steps = 100;
  EXPECT_EQ(text_of("{% for i in range(9) %}{{ i }}{% endfor %}", "{}", options), "012345678");
  EXPECT_FALSE(render("{% for i in range(99) %}{{ i }}{% endfor %}", "{}", options).ok());
  options = {};
  options.limits.live_bytes = 30'000;
  EXPECT_FALSE(render("{% set x = 'a' * 30000 %}", "{}", options).ok());
  // What is let go counts no more.
  EXPECT_EQ(text_of("{% for i in range(99) %}{% set x = 'a' * 5000 %}{% endfor %}ok", "{}", options), "ok");
}

TEST(Jinja, ObjectsThatHoldEachOtherAreLetGo) {  // for the leak checker
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a is sameas ns }}"), "True");
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% macro f() %}{% macro g() %}{{ g }}{% endmacro %}"
                    "{% set ns.f = g %}{% endmacro %}{{ f() }}{{ f() }}x"),
            "x");
  EXPECT_EQ(
      text_of("{% set ns = namespace(l=none) %}{% for x in [1, 2] if x %}{% set ns.l = loop %}{% endfor %}x"),
      "x");
  RenderOptions options;
  options.allow_mutation = true;
  EXPECT_EQ(text_of("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "{}", options), "[[...]]");
}

TEST(Jinja, MutationIsForThoseWhoAllowIt) {
  const std::string_view source =
      "{% set _ = l.append(3) %}{% set _ = l.extend([4]) %}{% set _ = l.insert(0, 0) %}{{ l.pop() }}{{ l }}"
      "{% set _ = d.update({'b': 2}) %}{{ d.pop('a') }}{{ d.setdefault('c', 5) }}{{ d }}";
  const std::string_view variables = R"({"l": [1, 2], "d": {"a": 1}})";
  EXPECT_FALSE(render(source, variables).ok());
  RenderOptions options;
  options.allow_mutation = true;
  EXPECT_EQ(text_of(source, variables, options), "4[0, 1, 2, 3]15{'b': 2, 'c': 5}");
}

TEST(Jinja, MutationLeavesTheCallersValuesAlone) {
  const Value list = Value::list({Value::integer(1)});
  const Value variables = Value::dict({{"l", list}});
  RenderOptions options;
  options.allow_mutation = true;
  auto chat = ChatTemplate::parse("{% set _ = l.append(2) %}{{ l }}", "t");
  ASSERT_TRUE(chat.ok());
  for (int i = 0; i < 2; ++i) {
    auto rendered = chat->render(variables, options);
    ASSERT_TRUE(rendered.ok());
    EXPECT_EQ(rendered->text, "[1, 2]");
  }
}

TEST(Jinja, NumbersOutsideSixtyFourBitsPassThrough) {
  const std::string_view variables = R"({"n": 123456789012345678901234567890, "u": 18446744073709551615})";
  EXPECT_EQ(
      text_of("{{ n }} {{ [n, u] | tojson }} {{ n == n }} {{ n is integer }} {{ '%d' % n }}", variables),
      "123456789012345678901234567890 [123456789012345678901234567890, 18446744073709551615] True True "
      "123456789012345678901234567890");
  EXPECT_FALSE(render("{{ n + 1 }}", variables).ok());
}

TEST(Jinja, FromJsonReadsWhatPortsOfDeepSeekPass) {
  EXPECT_EQ(text_of(R"({{ ('{"a": [1, 2.0, null]}' | from_json).a }})"), "[1, 2.0, None]");
  EXPECT_FALSE(render("{{ '{' | from_json }}").ok());
}

}  // namespace
}  // namespace rafter::text
