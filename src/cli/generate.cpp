// rafter generate: one prompt, one answer.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include "base/mapped_file.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/sampling_flags.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "decode/json_constraint.h"

namespace rafter::cli {
namespace {

struct GenerateFlags {
  std::string model;
  std::optional<std::string> prompt;
  std::string system;
  std::string json_schema;  // a file, or -
  bool json_object = false;
  bool raw = false, json = false, verbose = false;
  EngineFlags engine;
  SamplingFlags sampling;
};

base::Result<std::string> read_stdin(const InterruptFlag& interrupt, const char* what) {
  constexpr size_t kLimit = 64 << 20;
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = interrupt.read_blocking(STDIN_FILENO, buffer, sizeof(buffer));
    RAFTER_TRY(interrupt.check());
    if (count < 0) return base::Error{base::ErrorCode::io, std::strerror(errno), "standard input", ""};
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kLimit) {
      return base::Error{base::ErrorCode::invalid_argument, fmt::format("the {} is larger than 64 MiB", what),
                         "standard input", ""};
    }
  }
}

// Nothing to answer: a command before the pipe failed, or a variable is not set.
base::Status check_not_empty(const std::string& prompt) {
  if (!prompt.empty()) return {};
  return base::Error{base::ErrorCode::invalid_argument, "the prompt is empty", "generate",
                     "give it as an argument or on standard input"};
}

// The argument, or standard input for "-" and for a pipe. A chat prompt's last newline is the shell's, not
// the user's.
base::Result<std::string> read_prompt(const GenerateFlags& flags, const InterruptFlag& interrupt) {
  if (flags.prompt && *flags.prompt != "-") return *flags.prompt;
  if (!flags.prompt && stdin_is_terminal()) {
    return base::Error{base::ErrorCode::invalid_argument, "there is no prompt", "generate",
                       "give it as an argument, or - to type it and end with Ctrl-D"};
  }
  RAFTER_ASSIGN(std::string text, read_stdin(interrupt, "prompt"));
  if (!flags.raw && text.ends_with('\n')) text.pop_back();
  return text;
}

base::Result<std::vector<int32_t>> prompt_tokens(const GenerateFlags& flags, const decode::ModelText& text,
                                                 const std::string& prompt) {
  if (flags.raw) return text.raw_prompt(prompt);
  std::vector<decode::ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", prompt});
  return text.chat_prompt(messages);
}

// The schema that the answer is held to; empty: none.
base::Result<std::string> read_schema(const GenerateFlags& flags, const InterruptFlag& interrupt) {
  if (flags.json_object) return std::string(text::kAnyJsonObject);
  if (flags.json_schema.empty()) return std::string();
  if (flags.json_schema == "-") return read_stdin(interrupt, "schema");
  constexpr uint64_t kLimit = 64 << 20;
  return base::read_text_file(flags.json_schema, kLimit);
}

base::Status hold_to(const std::string& schema, const LoadedModel& model,
                     decode::GenerationRequest& request) {
  if (schema.empty()) return {};
  RAFTER_ASSIGN(const text::TokenIndex index,
                text::TokenIndex::from(model.text.tokenizer(), model.text.end_tokens()));
  auto compiled = text::compile_json_schema(schema, index);
  if (!compiled.ok()) {
    base::Error error = compiled.error();
    error.where = "--json-schema: " + error.where;
    return error;
  }
  request.constraint = std::make_shared<decode::JsonConstraint>(*compiled);
  return {};
}

void print_json(const LoadedModel& model, const decode::GenerationResult& result) {
  const nlohmann::ordered_json json = {{"text", result.text},
                                       {"tokens", result.tokens},
                                       {"prompt_tokens", result.prompt_tokens},
                                       {"completion_tokens", result.tokens.size()},
                                       {"prefill_tps", result.prefill_tokens_per_second()},
                                       {"decode_tps", result.decode_tokens_per_second()},
                                       {"logits_hash", result.logits_hash},
                                       {"finish_reason", decode::finish_reason_name(result.reason)},
                                       {"seed", result.seed},
                                       {"model", model.name}};
  std::fputs((json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(), stdout);
}

void print_figures(const LoadedModel& model, const decode::GenerationResult& result) {
  fmt::print(stderr, "{}: prompt {} tokens at {:.1f}/s, answer {} tokens at {:.1f}/s, {}, seed {}, {}\n",
             model.name, result.prompt_tokens, result.prefill_tokens_per_second(), result.tokens.size(),
             result.decode_tokens_per_second(), decode::finish_reason_name(result.reason), result.seed,
             model.engine->executor_name());
}

base::Status run(const GenerateFlags& flags) {
  if (flags.raw && !flags.system.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "does not go with --raw", "--system",
                       "a raw prompt has no messages"};
  }
  if (flags.json_schema == "-" && (!flags.prompt || *flags.prompt == "-")) {
    return base::Error{base::ErrorCode::invalid_argument, "standard input cannot be the prompt too",
                       "--json-schema", "give the prompt as an argument"};
  }
  InterruptFlag interrupt;
  RAFTER_ASSIGN(const std::string schema, read_schema(flags, interrupt));
  RAFTER_ASSIGN(const std::string prompt, read_prompt(flags, interrupt));
  RAFTER_TRY(check_not_empty(prompt));
  RAFTER_ASSIGN(LoadedModel model, load_model(flags.model, flags.engine));
  RAFTER_ASSIGN(decode::GenerationRequest request, request_of(flags.sampling, model.text));
  RAFTER_ASSIGN(request.prompt, prompt_tokens(flags, model.text, prompt));
  RAFTER_TRY(hold_to(schema, model, request));
  request.cancelled = &interrupt.flag();
  RAFTER_ASSIGN(
      const decode::GenerationResult result,
      sched::generate_blocking(*model.lane, std::move(request), [&](const decode::TokenEvent& event) {
        if (!flags.json && !write_stdout(event.text)) interrupt.raise();
      }));
  if (flags.json) {
    print_json(model, result);
  } else if (!result.text.ends_with('\n')) {
    write_stdout("\n");
  }
  if (flags.verbose || (!flags.json && stderr_is_terminal())) print_figures(model, result);
  RAFTER_TRY(check_stdout());
  return interrupt.check();
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("prompt", flags->prompt, "the prompt; - or nothing: standard input");
  app.add_option("--system", flags->system, "a system message before the prompt");
  app.add_flag("--raw", flags->raw, "continue the prompt as plain text, without the chat template");
  app.add_option("--json-schema", flags->json_schema,
                 "a file, or -: the answer is JSON that obeys this JSON Schema")
      ->excludes(app.add_flag("--json-object", flags->json_object, "the answer is a JSON object"));
  app.add_flag("--json", flags->json, "print one JSON object with text, tokens and figures");
  app.add_flag("--verbose", flags->verbose, "print figures on standard error, terminal or not");
  add_sampling_flags(app, flags->sampling);
  add_engine_flags(app, flags->engine);
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kGenerateVerb{"generate", "answer one prompt",
                         "  rafter generate smollm2 \"What is the capital of France?\" --temperature 0\n"
                         "  rafter generate ~/models/llama --raw \"Once upon a time\" --max-tokens 100\n"
                         "  git diff | rafter generate smollm2 - --system \"Write a commit message.\"\n"
                         "  rafter generate smollm2 \"Hello\" --json | jq .decode_tps\n"
                         "  rafter generate smollm2 \"Describe Paris as JSON.\" --json-object\n"
                         "  rafter generate smollm2 \"Invent a person.\" --json-schema person.json\n",
                         define};

}  // namespace rafter::cli
