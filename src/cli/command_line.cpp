#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>

#include "base/cpu_info.h"
#include "base/version.h"
#include "cli/environment.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

constexpr int kUsage = 2;

int run_arguments(const std::vector<std::string>& arguments);

int fail(const base::Error& error) {
  std::cout.flush();
  print_error(error);
  return exit_code_of(error);
}

std::string overview() {
  std::string text = "rafter runs language models on this machine.\n\nVerbs:\n";
  for (const Verb* verb : verbs()) {
    if (!verb->hidden) text += fmt::format("  {:<10} {}\n", verb->name, verb->summary);
  }
  text += fmt::format("  {:<10} {}\n", "help", "help VERB: flags and examples; help environment: variables");
  text += fmt::format("  {:<10} {}\n", "version", "version, commit, compiler and kernel tier");
  return text +
         "\nMODEL is a folder, a .gguf file, or part of a registered model's name.\n"
         "Exit codes: 0 done, 1 failed, 2 usage, 3 refused for memory or context, 4 interrupted.\n";
}

int print_version() {
  auto tier = base::select_tier();
  if (!tier.ok()) return fail(tier.error());
  std::cout << fmt::format("rafter {} ({}, {}, {}, {} kernels on {})\n", base::version(), base::git_commit(),
                           base::compiler(), base::build_type(), base::cpu_tier_name(*tier),
                           base::cpu_model_name());
  return 0;
}

// Letters to change, insert or remove.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({diagonal + (a[i] == b[j] ? 0 : 1), above + 1, row[j] + 1});
      diagonal = above;
    }
  }
  return row.back();
}

// "--temprature" → "--temperature"; empty when nothing is near.
std::string closest_name(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kNear = 3;
  std::string closest;
  size_t distance = std::min(kNear, name.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const size_t d = edit_distance(name, candidate);
    if (d < distance) closest = candidate, distance = d;
  }
  return closest;
}

int usage_error(const std::string& where, const std::string& what, const std::string& closest) {
  const std::string verb = where.empty() ? "" : " " + where;
  const std::string hint = closest.empty()
                               ? fmt::format("see `rafter help{}`", verb)
                               : fmt::format("did you mean \"{}\"? See `rafter help{}`", closest, verb);
  fail({base::ErrorCode::invalid_argument, what, where, hint});
  return kUsage;
}

const Verb* find_verb(const std::string& name) {
  for (const Verb* verb : verbs()) {
    if (name == verb->name) return verb;
  }
  return nullptr;
}

void prepare(CLI::App& app, const Verb& verb) {
  app.name(std::string("rafter ") + verb.name);
  app.description(verb.summary);
  app.footer(std::string("Examples:\n") + verb.examples);
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What was wrong with the flags, and the closest flag to one that is not known.
int parse_error(const Verb& verb, const CLI::App& app, const CLI::ParseError& error,
                const std::vector<std::string>& arguments) {
  std::string closest;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> known = flag_names(app);
    for (const std::string& argument : arguments) {
      const std::string name = argument.substr(0, argument.find('='));
      const bool unknown =
          name.starts_with("--") && std::find(known.begin(), known.end(), name) == known.end();
      if (!unknown) continue;
      return usage_error(verb.name, fmt::format("unknown flag \"{}\"", name), closest_name(name, known));
    }
  }
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  while (what.ends_with('.') || what.ends_with(' ')) what.pop_back();
  return usage_error(verb.name, what, closest);
}

int run_verb(const Verb& verb, const std::vector<std::string>& arguments) {
  CLI::App app;
  prepare(app, verb);
  const Action action = verb.define(app);
  try {
    // CLI11 takes the arguments last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    return parse_error(verb, app, error, arguments);
  }
  const base::Status status = action();
  return status.ok() ? 0 : fail(status.error());
}

int print_help(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::cout << overview();
    return 0;
  }
  if (arguments.front() == "environment") {
    std::cout << environment_help();
    return 0;
  }
  if (find_verb(arguments.front()) == nullptr) return run_arguments(arguments);  // says what is wrong
  return run_arguments({arguments.front(), "--help"});
}

int run_arguments(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", overview());
    return kUsage;
  }
  const std::string& name = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "help" || name == "--help" || name == "-h") return print_help(rest);
  if (name == "version" || name == "--version" || name == "-v") return print_version();
  if (const Verb* verb = find_verb(name)) return run_verb(*verb, rest);
  std::vector<std::string> known = {"help", "version"};
  for (const Verb* verb : verbs()) {
    if (!verb->hidden) known.push_back(verb->name);
  }
  return usage_error("", fmt::format("unknown verb \"{}\"", name), closest_name(name, known));
}

}  // namespace

int exit_code_of(const base::Error& error) {
  switch (error.code) {
    case base::ErrorCode::invalid_argument:
      return kUsage;
    case base::ErrorCode::out_of_memory:
      return 3;
    case base::ErrorCode::interrupted:
      return 4;
    default:
      return 1;
  }
}

int run_command_line(const std::vector<std::string>& arguments) {
  const int exit_code = run_arguments(arguments);
  const base::Status output = check_stdout();
  return exit_code == 0 && !output.ok() ? fail(output.error()) : exit_code;
}

}  // namespace rafter::cli
