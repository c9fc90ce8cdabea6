// rafter render: what a chat template makes of its variables.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "cli/find_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "decode/model_text.h"
#include "format/checkpoint.h"
#include "text/chat_template.h"

namespace rafter::cli {
namespace {

struct RenderFlags {
  std::string template_file, model, template_name, input;
};

// A whole file, or standard input for "-".
base::Result<std::string> read_text(const std::string& path) {
  constexpr size_t kLimit = size_t{64} << 20;
  const bool is_stdin = path == "-";
  const std::string where = is_stdin ? "standard input" : one_line(path);
  const int file = is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failed = [&] {
    const auto code = errno == ENOENT ? base::ErrorCode::not_found : base::ErrorCode::io;
    return base::Error{code, std::strerror(errno), where, ""};
  };
  if (file < 0) return failed();
  const std::shared_ptr<void> closer(nullptr, [&](void*) {
    if (!is_stdin) ::close(file);
  });
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kLimit)
      return base::Error{base::ErrorCode::invalid_data, "larger than 64 MiB", where, ""};
  }
}

base::Result<std::string> render_with_model(const RenderFlags& flags, const std::string& variables) {
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  RAFTER_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(named.path));
  RAFTER_ASSIGN(const decode::ModelText model_text, decode::ModelText::from_checkpoint(checkpoint));
  return model_text.render_variables(variables, flags.template_name);
}

base::Result<std::string> render_with_file(const std::string& file, const std::string& variables) {
  RAFTER_ASSIGN(const std::string source, read_text(file));
  RAFTER_ASSIGN(const text::ChatTemplate chat, text::ChatTemplate::parse(source, one_line(file)));
  return chat.render_json(variables);
}

base::Status run(const RenderFlags& flags) {
  if (flags.template_file == "-" && flags.input == "-") {
    return base::Error{base::ErrorCode::invalid_argument, "only one of the two can be standard input",
                       "render", ""};
  }
  if (!flags.template_name.empty() && flags.model.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "needs --model", "--template-name",
                       "a file holds one template"};
  }
  RAFTER_ASSIGN(const std::string variables, read_text(flags.input));
  RAFTER_ASSIGN(const std::string rendered, flags.model.empty()
                                                ? render_with_file(flags.template_file, variables)
                                                : render_with_model(flags, variables));
  write_stdout(rendered);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<RenderFlags>();
  auto* source = app.add_option_group("template")->require_option(1);
  source->add_option("--template", flags->template_file,
                     "a file that holds a chat template (Jinja); - for standard input");
  source->add_option("--model", flags->model,
                     "the chat template and special tokens of a model: a path, or part of a registered name");
  app.add_option(
      "--template-name", flags->template_name,
      "with --model: which of its templates; without it \"tool_use\" if there are tools and such a\n"
      "template, else \"default\"");
  app.add_option("input", flags->input,
                 "a JSON object with messages, tools and any other variables of the template\n"
                 "(add_generation_prompt, enable_thinking, bos_token, …); - for standard input")
      ->required();
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kRenderVerb{"render", "print what a chat template makes of messages and tools",
                       "  rafter render --template chat_template.jinja input.json\n"
                       "  rafter render --model smollm2 input.json\n"
                       "  rafter render --model command-r --template-name rag input.json\n"
                       "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                       "\"add_generation_prompt\": true}' |\n"
                       "    rafter render --model smollm2 -\n",
                       define};

}  // namespace rafter::cli
