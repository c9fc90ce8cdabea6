// rafter serve: the model over HTTP.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <sys/resource.h>

#include "cli/exact_integer.h"
#include "cli/find_model.h"
#include "cli/fit.h"
#include "cli/model_facts.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/worker_flags.h"
#include "serve/front_server.h"
#include "serve/worker_child.h"
#include "serve/worker_service.h"
#include "store/registry.h"

namespace rafter::cli {
namespace {

using std::chrono::milliseconds;

struct ServeFlags {
  WorkerFlags worker;
  std::string host = "127.0.0.1", served_name, chat_template, template_arguments;
  uint16_t port = 8080;
  std::vector<std::string> keys, origins;
  bool no_auth = false, json = false;
  double stuck_after = 15;  // seconds
  std::optional<bool> thinking;
  std::string tool_format = "auto", reasoning_format = "auto";
  serve::SamplingFields sampling;
  std::optional<int64_t> max_tokens, reasoning_budget;
};

base::Result<std::string> read_text(const std::string& path, const char* flag) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().empty())
    return base::Error{base::ErrorCode::not_found, "cannot be read, or is empty",
                       std::string(flag) + " " + path, ""};
  return text.str();
}

// Every connection takes a descriptor. What is left for them, when the limit is raised as far as it goes:
// files, the worker and its replacement need some too.
size_t connections_of_descriptors() {
  constexpr rlim_t kOwn = 128;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return serve::HttpLimits().connections;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t left = limit.rlim_cur > 2 * kOwn ? limit.rlim_cur - kOwn : limit.rlim_cur / 2;
  return std::min<size_t>(serve::HttpLimits().connections, left);
}

// The other models that this machine has; a registry that cannot be read is none.
std::vector<std::string> other_models(const std::string& path) {
  std::vector<std::string> names;
  const auto cannot = [](const base::Error& error) {
    fmt::print(stderr, "other models are not listed: {}\n", error.message());
  };
  const auto registry = store::ModelRegistry::open_default();
  if (!registry.ok()) return cannot(registry.error()), names;
  const auto records = registry->list();
  if (!records.ok()) return cannot(records.error()), names;
  for (const store::ModelRecord& record : *records) {
    if (record.path == path || record.missing || !record.supported) continue;
    names.push_back(record.name);
    names.insert(names.end(), record.aliases.begin(), record.aliases.end());
  }
  return names;
}

struct ServedModel {
  NamedModel named;
  decode::ModelText text;
  store::ModelRecord facts;
};

// The model's text side. Its weights are the worker's alone.
base::Result<ServedModel> open_text(const ServeFlags& flags) {
  RAFTER_ASSIGN(NamedModel named, find_model(flags.worker.model));
  RAFTER_ASSIGN(store::ModelRecord facts, read_model_facts({.path = named.path, .name = named.name}));
  RAFTER_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(named.path));
  RAFTER_ASSIGN(decode::ModelText text, decode::ModelText::from_checkpoint(checkpoint));
  if (!flags.chat_template.empty()) {
    RAFTER_ASSIGN(std::string source, read_text(flags.chat_template, "--chat-template"));
    RAFTER_TRY(text.replace_templates(std::move(source), flags.chat_template));
  }
  return ServedModel{std::move(named), std::move(text), std::move(facts)};
}

// Headers alone are read; the machine's figures are those on file, or are measured for two seconds.
base::Result<std::string> fit_text(const std::string& path, const std::string& name,
                                   const EngineFlags& engine, int64_t context) {
  RAFTER_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(path));
  auto evaluations = store::Evaluations::open_default();
  store::Evaluations* filed = evaluations.ok() ? &*evaluations : nullptr;
  RAFTER_ASSIGN(const store::MachineProfile machine,
                lab::machine_profile_blocking(filed, engine.threads, /*again=*/false));
  lab::FitOptions options;
  if (engine.context > 0) options.context = engine.context;
  if (context > 0) options.context = context;
  options.precise = engine.precise;
  options.kv_quantization = engine.kv_quantization();
  options.threads = engine.threads;
  RAFTER_ASSIGN(const lab::FitReport report,
                lab::predict_fit(std::make_shared<const format::Checkpoint>(std::move(checkpoint)), options,
                                 machine, filed));
  return fit_json(name, report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

base::Result<serve::FrontServerOptions> server_options(const ServeFlags& flags, const ServedModel& model) {
  serve::FrontServerOptions options;
  options.http.host = flags.host;
  options.http.port = flags.port;
  options.http.limits.connections = connections_of_descriptors();
  options.access = {flags.host, flags.keys, flags.no_auth, flags.origins};
  serve::FrontOptions& front = options.front;
  front.model_id = flags.served_name.empty() ? model.named.name : flags.served_name;
  front.aliases = {model.named.name, model.facts.name, model.named.path};
  front.other_models = other_models(model.named.path);
  front.family = model.facts.architecture;
  front.quantization = model.facts.quantization;
  front.trained_context = model.facts.context;
  front.sampling = flags.sampling;
  front.max_tokens = flags.max_tokens;
  front.reasoning_budget = flags.reasoning_budget;
  front.tool_format = flags.tool_format;
  front.reasoning_format = flags.reasoning_format;
  front.prompt.thinking = flags.thinking;
  front.fit = [path = model.named.path, name = front.model_id, engine = flags.worker.engine](
                  int64_t context) { return fit_text(path, name, engine, context); };
  if (!flags.template_arguments.empty()) {
    auto arguments = serve::parse_body(flags.template_arguments);
    if (!arguments.ok())
      return base::Error{base::ErrorCode::invalid_argument, "is no JSON object", "--chat-template-args", ""};
    front.prompt.template_variables = std::move(*arguments);
  }
  return options;
}

// Runs the server until a signal ends it.
class Serving {
 public:
  Serving(const ServeFlags& flags, serve::EventLoop& loop, serve::WorkerService& service,
          serve::FrontServer& server)
      : flags_(flags), loop_(loop), service_(service), server_(server) {}

  base::Status run_blocking() {
    loop_.on_signals([this](int count) { on_signal(count); });
    service_.start();
    watch();
    loop_.run_blocking();
    return std::move(end_);
  }

 private:
  // Until the model is there, or is known never to be.
  void watch() {
    constexpr milliseconds kInterval{20};
    if (service_.state() == serve::ServiceState::ready) return announce();
    if (service_.state() == serve::ServiceState::failed) {
      end_ = base::Error{base::ErrorCode::unavailable, service_.state_reason(), "", ""};
      return loop_.stop();
    }
    timer_ = loop_.after(kInterval, [this] { watch(); });
  }

  void announce() {
    const serve::ModelFacts& facts = *service_.facts();
    const std::string& model = server_.front().options().model_id;
    const std::string host = flags_.host == "0.0.0.0" ? "127.0.0.1" : flags_.host;
    const bool is_v6 = host.find(':') != std::string::npos;
    const std::string url = fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host, server_.port());
    if (flags_.json) {
      write_stdout(nlohmann::ordered_json{{"url", url},
                                          {"model", model},
                                          {"context", facts.context_limit},
                                          {"executor", facts.executor},
                                          {"batch", facts.batch}}
                       .dump() +
                   "\n");
    } else {
      write_stdout(
          fmt::format("{} is ready\n"
                      "  OpenAI     {}/v1\n"
                      "  Anthropic  {}\n"
                      "  context    {} positions, {} requests at once\n"
                      "  runs on    {}\n"
                      "  key        {}\n"
                      "Try: curl {}/v1/chat/completions -d '{{\"messages\":[{{\"role\":\"user\","
                      "\"content\":\"Hello\"}}]}}'\n"
                      "Ctrl-C ends it.\n",
                      model, url, url, facts.context_limit, facts.batch, facts.executor,
                      flags_.keys.empty() ? "none needed" : "asked for", url));
    }
    std::fflush(stdout);
  }

  // The first one lets answers end, the second does not.
  void on_signal(int count) {
    constexpr milliseconds kPatience{5000};
    if (count > 1) ::_exit(kInterruptedExit);
    fmt::print(stderr, "ending: answers may take up to {} s, another Ctrl-C ends at once\n",
               kPatience.count() / 1000);
    server_.shut_down(kPatience, [this] { service_.drain([this] { loop_.stop(); }); });
  }

  static constexpr int kInterruptedExit = 130;
  const ServeFlags& flags_;
  serve::EventLoop& loop_;
  serve::WorkerService& service_;
  serve::FrontServer& server_;
  std::unique_ptr<serve::Timer> timer_;
  base::Status end_;
};

base::Status run(ServeFlags flags) {
  RAFTER_TRY(serve::check_address(flags.host));
  RAFTER_TRY(serve::check_exposure({flags.host, flags.keys, flags.no_auth, flags.origins}));
  RAFTER_ASSIGN(ServedModel model, open_text(flags));
  RAFTER_ASSIGN(const serve::FrontServerOptions options, server_options(flags, model));
  RAFTER_ASSIGN(const std::string program, serve::own_program());
  flags.worker.model = model.named.path;
  serve::EventLoop loop;
  serve::WorkerService service(loop.context(),
                               {.command = worker_command(program, flags.worker),
                                .stuck_after = milliseconds(static_cast<int64_t>(flags.stuck_after * 1000)),
                                .log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }});
  RAFTER_ASSIGN(const auto server, serve::FrontServer::start(loop, service, std::move(model.text), options));
  return Serving(flags, loop, service, *server).run_blocking();
}

void add_sampling(CLI::App& app, serve::SamplingFields& sampling, std::optional<int64_t>& max_tokens) {
  app.add_option("--temperature", sampling.temperature,
                 "of requests that do not say (default: the model's, else 0.7)")
      ->check(CLI::Range(0.0, 5.0));
  app.add_option("--top-p", sampling.top_p, "the same")->check(CLI::Range(0.0, 1.0));
  app.add_option("--top-k", sampling.top_k, "the same")->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  app.add_option("--min-p", sampling.min_p, "the same")->check(CLI::Range(0.0, 1.0));
  app.add_option("--max-tokens", max_tokens,
                 "of answers whose requests do not say (default: what the context holds)")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000'000}));
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  add_worker_flags(app, flags->worker);
  app.add_option("--host", flags->host, "the address to listen on; others than this machine need --api-key")
      ->capture_default_str();
  app.add_option("--port", flags->port, "0: any that is free")->capture_default_str();
  app.add_option("--api-key", flags->keys, "asked for as Bearer or x-api-key; may be repeated");
  app.add_flag("--no-auth", flags->no_auth, "let anybody who reaches the port use it");
  app.add_option("--allowed-origins", flags->origins,
                 "web pages that may use it, besides this machine's: https://a.example,…; *: any")
      ->delimiter(',');
  app.add_option("--served-name", flags->served_name, "the model's id for clients (default: its name)");
  app.add_option("--chat-template", flags->chat_template, "a Jinja file to use instead of the model's own");
  app.add_option("--chat-template-args", flags->template_arguments, "variables for it, as a JSON object");
  app.add_option("--thinking", flags->thinking,
                 "true or false: of requests that do not say (default: the template's)");
  app.add_option("--reasoning-budget", flags->reasoning_budget,
                 "most tokens of reasoning of requests that do not say (default: no limit)")
      ->check(CLI::Range(int64_t{0}, int64_t{10'000'000}));
  app.add_option("--tool-format", flags->tool_format,
                 "how the model writes calls (default: by its template)");
  app.add_option("--reasoning-format", flags->reasoning_format,
                 "how it marks reasoning (default: by its template)");
  app.add_option("--stuck-after", flags->stuck_after,
                 "seconds without progress after which the model's process is replaced")
      ->check(CLI::Range(2.0, 86400.0))
      ->capture_default_str();
  add_sampling(app, flags->sampling, flags->max_tokens);
  app.add_flag("--json", flags->json, "when ready, print one line: url, model, context");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kServeVerb{"serve", "answer over HTTP: OpenAI, Anthropic, Ollama and llama.cpp protocols",
                      "  rafter serve smollm2\n"
                      "  rafter serve qwen3 --port 9000 --ctx 16384 --batch 4\n"
                      "  rafter serve qwen3 --host 0.0.0.0 --api-key \"$KEY\"\n"
                      "  curl localhost:8080/v1/models\n",
                      define};

}  // namespace rafter::cli
