// Hostile chat templates under a fifth of the default steps, to be done soon, and all other limits as they
// are: each ends, with an error or a text, in bounded time and memory.
#include <ctime>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "text/chat_template.h"

namespace rafter::text {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr double kSlower = 30;  // than an optimised build
#else
constexpr double kSlower = 1;
#endif
constexpr double kMostSeconds = 3;        // of processor time
constexpr long kMostKilobytes = 1 << 20;  // of growth; the limit on live values is 256 MiB

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

struct Attack {
  const char* name;
  std::string source;
  bool may_render = false;  // refused, or harmless after all
};

std::vector<Attack> attacks() {
  const std::string big = "{% set s = 'a' * 1000000 %}";
  return {
      {"nested loops", repeated("{% for i in range(99999) %}", 8) + "x" + repeated("{% endfor %}", 8)},
      {"a string doubles",
       "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
      {"a string doubles by ~",
       "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ "
       "ns.s }}"},
      {"range(10**9)", "{% for i in range(10**9) %}x{% endfor %}"},
      {"range(10**9) as a list", "{{ range(10**9) | list | length }}"},
      {"'a' * 10**10", "{{ 'a' * 10**10 }}"},
      {"[0] * 10**10", "{{ [0] * 10**10 }}"},
      {"macros recurse", "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"},
      {"macros recurse twice",
       "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(60) }}"},
      {"two macros call each other",
       "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"a format's width", "{{ '%1000000000d' % 1 }}"},
      {"a format's precision", "{{ '%.999999999f' % 1.5 }}"},
      {"a braces format's width", "{{ '{:>1000000000}'.format(1) }}"},
      {"center and ljust", "{{ 'a' | center(10**10) }}"},
      {"indent", "{{ ('\\n' * 100000) | indent(100000, true, true) }}"},
      {"a list joined into itself",
       "{% set ns = namespace(l=['ab']) %}{% for i in range(40) %}{% set ns.l = ns.l + [ns.l | join(',')] + "
       "ns.l %}{% endfor %}"},
      {"a dict printed within itself",
       "{% set ns = namespace(d={'k': 1}) %}{% for i in range(99) %}{% set ns.d = {'a': ns.d, 'b': ns.d} "
       "%}{% endfor %}{{ ns.d }}"},
      {"tojson of it",
       "{% set ns = namespace(d=[1]) %}{% for i in range(99) %}{% set ns.d = [ns.d, ns.d] %}{% endfor %}{{ "
       "ns.d | tojson }}"},
      {"parentheses", "{{ " + repeated("(", 200'000) + "1" + repeated(")", 200'000) + " }}"},
      {"brackets", "{{ " + repeated("[", 200'000) + " }}"},
      {"unary minus", "{{ " + repeated("-", 200'000) + "1 }}"},
      {"not", "{{ " + repeated("not ", 200'000) + "1 }}"},
      {"ifs", repeated("{% if x %}", 60'000)},
      {"a chain of filters", "{{ 'a'" + repeated("|upper", 100'000) + " }}", true},
      {"a chain of additions", "{{ 1" + repeated("+1", 300'000) + " }}", true},
      {"replace explodes", big + "{{ s | replace('a', s) }}"},
      {"replace of nothing", big + "{{ s.replace('', s) }}"},
      {"split and join",
       big + "{% for i in range(99999) %}{% set x = s.split('a') | join('a') %}{% endfor %}"},
      {"sort again and again",
       "{% set l = range(99999) | list %}{% for i in range(99999) %}{% set x = l | sort(reverse=true) %}{% "
       "endfor %}"},
      {"unique and batch",
       "{% set l = range(99999) | list %}{% for i in range(99999) %}{% set x = l | unique | batch(2) | list "
       "%}{% endfor %}"},
      {"groupby",
       "{% set l = range(9999) | list %}{% for i in range(99999) %}{% set x = l | groupby('real') | list "
       "%}{% endfor %}",
       true},
      {"in a long string", big + "{% for i in range(99999) %}{% set x = (s ~ 'b') in s %}{% endfor %}"},
      {"find in a periodic string",
       "{% set s = 'ab' * 400000 %}{% set p = 'ab' * 200000 + 'c' %}{% for i in range(999) %}{{ s.find(p) "
       "}}{% endfor %}",
       true},
      {"powers", "{{ 9 ** 9 ** 9 ** 9 }}"},
      {"a slice of a long string in a loop",
       big + "{% for i in range(99999) %}{% set x = s[::-1] %}{% endfor %}"},
      {"title, wordcount, striptags",
       big +
           "{% for i in range(99999) %}{% set x = (s | title | striptags) ~ (s | wordcount) %}{% endfor %}"},
      {"a recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"a callable in a namespace",
       "{% set ns = namespace() %}{% macro f() %}{{ ns.f() }}{{ ns.f() }}{% endmacro %}{% set ns.f = f %}{{ "
       "f() }}"},
      {"output without end", "{% for i in range(99999) %}{{ 'a' * 10000 }}{% endfor %}"},
  };
}

TEST(JinjaAttacks, EndInBoundedTimeAndMemory) {
  RenderOptions options;
  options.limits.steps /= 5;
  for (const Attack& attack : attacks()) {
    const long before = peak_kilobytes();
    const double start = processor_seconds();
    const auto chat = ChatTemplate::parse(attack.source, "attack");
    bool refused = !chat.ok();
    if (chat.ok()) {
      const auto rendered = chat->render_json("{}", options);
      refused = !rendered.ok();
      if (refused) {
        EXPECT_FALSE(rendered.error().what.empty());
      }
    }
    EXPECT_TRUE(refused || attack.may_render) << attack.name;
    EXPECT_LT(processor_seconds() - start, kMostSeconds * kSlower) << attack.name;
    EXPECT_LT(peak_kilobytes() - before, kMostKilobytes * kSlower) << attack.name;
  }
}

}  // namespace
}  // namespace rafter::text
