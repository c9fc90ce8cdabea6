// rafter chat: a conversation in the terminal.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/chat_session.h"
#include "cli/engine_flags.h"
#include "cli/line_reader.h"
#include "cli/progress_bar.h"
#include "cli/sampling_flags.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "store/paths.h"

namespace rafter::cli {
namespace {

constexpr const char* kHelp =
    "/help            this list\n"
    "/clear           forget the conversation, keep the system message\n"
    "/system TEXT     set the system message and start anew; without TEXT: show it\n"
    "/stats           tokens, reuse of the cached prefix, speed, context\n"
    "/exit            leave (Ctrl-D too)\n"
    "//text           a message that begins with a slash\n"
    "Ctrl-C stops an answer; on an empty line, twice, it leaves.\n";

struct ChatFlags {
  std::string model, system;
  bool thinking = false, no_thinking = false, verbose = false;
  EngineFlags engine;
  SamplingFlags sampling;
};

class Chat {
 public:
  Chat(const LoadedModel& model, ChatSession& session, LineReader& reader, InterruptFlag& interrupt,
       bool verbose)
      : model_(model), session_(session), reader_(reader), interrupt_(interrupt), verbose_(verbose) {}

  // Until the user leaves.
  base::Status run_blocking() {
    bool warned = false;  // a first Ctrl-C on an empty line says how to leave
    for (;;) {
      interrupt_.clear();
      RAFTER_TRY(check_stdout());
      const LineReader::Input input = reader_.read_blocking("> ");
      if (input.event == LineReader::Event::end) return {};
      if (input.event == LineReader::Event::failed) {
        return base::Error{base::ErrorCode::io, input.text, "standard input", ""};
      }
      if (input.event == LineReader::Event::interrupted) {
        if (!is_interactive_) return interrupt_.check();
        if (!input.text.empty()) continue;  // Ctrl-C took back a line
        if (warned) return {};
        warned = true;
        write_stdout("Ctrl-C again, or Ctrl-D, leaves.\n");
        continue;
      }
      warned = false;
      if (input.text.find_first_not_of(" \t") == std::string::npos) continue;
      if (!input.text.starts_with('/') || input.text.starts_with("//")) {
        ask(input.text.starts_with('/') ? input.text.substr(1) : input.text);
      } else if (!obey(input.text)) {
        return {};
      }
    }
  }

 private:
  void ask(const std::string& question) {
    bool was_reasoning = false;
    const auto result = session_.ask_blocking(question, [&](const std::string& text, bool is_reasoning) {
      if (was_reasoning && !is_reasoning) end_reasoning();
      was_reasoning = is_reasoning;
      if (!(is_reasoning ? write_reasoning(text) : write_stdout(text))) interrupt_.raise();
    });
    if (was_reasoning) end_reasoning();
    if (!result.ok()) {
      print_error(result.error());
      if (result.error().code == base::ErrorCode::out_of_memory && is_interactive_) {
        fmt::print(stderr, "/clear starts anew.\n");
      }
      return;
    }
    write_stdout(result->reason == decode::FinishReason::cancelled ? " [stopped]\n" : "\n");
    if (verbose_) fmt::print(stderr, "{}", stats());
  }

  // What a model thinks is dim on a terminal; elsewhere standard output has the answers alone.
  static bool write_reasoning(const std::string& text) {
    if (stdout_is_terminal()) return write_dim(text);
    std::fputs(text.c_str(), stderr);
    return true;
  }
  static void end_reasoning() {
    if (stdout_is_terminal()) {
      write_stdout("\n\n");
    } else {
      std::fputs("\n", stderr);
    }
  }

  // A line that starts with one slash. Returns false to leave.
  bool obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::string argument =
        space == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', space));
    if (command == "/exit" || command == "/quit") return false;
    if (command == "/help") {
      write_stdout(kHelp);
    } else if (command == "/clear") {
      session_.clear();
    } else if (command == "/stats") {
      write_stdout(stats());
    } else if (command == "/system" && !argument.empty()) {
      session_.set_system(argument);
    } else if (command == "/system") {
      write_stdout(session_.system().empty() ? "There is no system message.\n" : session_.system() + "\n");
    } else {
      write_stdout(fmt::format("{} is no command; /help lists them, //{} sends it as text.\n", command,
                               line.substr(1, 20)));
    }
    return true;
  }

  std::string stats() const {
    const ChatSession::Totals& totals = session_.totals();
    if (!session_.last()) return "Nothing was asked yet.\n";
    const decode::GenerationResult& last = *session_.last();
    const auto rate = [](int64_t tokens, double seconds) {
      return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    };
    return fmt::format(
        "last turn: prompt {} tokens, {} reused from the cache, {} computed at {:.1f}/s; answer {} tokens at "
        "{:.1f}/s; "
        "{}; seed {}\n"
        "all {} turns: {} of {} prompt tokens reused, {} answer tokens at {:.1f}/s\n"
        "context: {} of {} positions, cache {}; {}\n",
        last.prompt_tokens, last.cached_tokens, last.prompt_tokens - last.cached_tokens,
        last.prefill_tokens_per_second(), last.tokens.size(), last.decode_tokens_per_second(),
        decode::finish_reason_name(last.reason), last.seed, totals.turns, totals.cached_tokens,
        totals.prompt_tokens, totals.answer_tokens,
        rate(totals.answer_tokens - totals.turns, totals.decode_seconds), session_.positions_held(),
        model_.engine->context_limit(), format_bytes(model_.engine->cache_bytes_in_use()),
        model_.engine->executor_name());
  }

  const LoadedModel& model_;
  ChatSession& session_;
  LineReader& reader_;
  InterruptFlag& interrupt_;
  bool verbose_;
  bool is_interactive_ = stdin_is_terminal() && stdout_is_terminal();
};

// Empty when there is no folder for it: then there is no history.
std::string history_file() {
  auto folder = store::cache_directory();
  return folder.ok() ? *folder + "/chat_history" : "";
}

base::Status run(ChatFlags flags) {
  // Ctrl-C is seen between steps: smaller ones than the engine's own answer it sooner, at a few per cent of
  // prefill speed.
  constexpr int64_t kPrefillChunk = 128;
  if (flags.engine.prefill_chunk == 0) flags.engine.prefill_chunk = kPrefillChunk;
  InterruptFlag interrupt;
  RAFTER_ASSIGN(LoadedModel model, load_model(flags.model, flags.engine));
  RAFTER_ASSIGN(decode::GenerationRequest settings, request_of(flags.sampling, model.text));
  settings.cancelled = &interrupt.flag();
  // What is missing is better found before the first question.
  RAFTER_TRY(model.text.render_chat({{"user", "Hello"}}));
  decode::ChatSwitches switches;
  if (flags.thinking || flags.no_thinking) switches.thinking = flags.thinking;
  if (switches.thinking && !model.text.has_thinking_switch()) {
    return base::Error{base::ErrorCode::invalid_argument, "the model's chat template has no such switch",
                       flags.thinking ? "--thinking" : "--no-thinking", ""};
  }
  ChatSession session(*model.lane, model.text, std::move(settings), switches, flags.system);
  const auto reader = make_line_reader(interrupt, history_file());
  if (stdin_is_terminal() && stdout_is_terminal()) {
    write_stdout(fmt::format("{} ({}). /help lists commands.\n", model.name, model.engine->executor_name()));
  }
  return Chat(model, session, *reader, interrupt, flags.verbose).run_blocking();
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("--system", flags->system, "a system message");
  auto* think =
      app.add_flag("--thinking", flags->thinking,
                   "have the model think before it answers, if its template can be told; without this and\n"
                   "--no-thinking it does as it likes. What it thinks is dim, or goes to standard error\n"
                   "when piped");
  app.add_flag("--no-thinking", flags->no_thinking, "have it answer at once")->excludes(think);
  app.add_flag("--verbose", flags->verbose, "print figures on standard error after each answer");
  add_sampling_flags(app, flags->sampling);
  add_engine_flags(app, flags->engine);
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kChatVerb{"chat", "talk with a model; /help inside",
                     "  rafter chat smollm2\n"
                     "  rafter chat smollm2 --system \"Answer in one sentence.\" --temperature 0.3\n"
                     "  rafter chat qwen3 --no-thinking\n"
                     "  printf 'Hello\\nAnd again\\n' | rafter chat smollm2\n",
                     define};

}  // namespace rafter::cli
