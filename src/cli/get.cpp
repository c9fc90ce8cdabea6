// rafter get: fetch a model from the hub, or a file from a URL, and register it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/register_models.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "hub/download.h"
#include "hub/url_download.h"
#include "store/paths.h"

namespace rafter::cli {
namespace {

using nlohmann::ordered_json;

struct GetFlags {
  std::string what, revision = "main", sha256, name;
  hub::FileChoice choice;
  int connections = 8;
  bool json = false;
};

// What was fetched, and the model in it, if any.
struct Fetched {
  std::string name, path, revision, commit;  // path: a folder, or the .gguf file
  ordered_json files = ordered_json::array();
  int64_t bytes = 0;  // fetched now
  bool is_model = true;
};

// A bar that is told how much is done, not how much more.
class Progress {
 public:
  explicit Progress(std::string label) : label_(std::move(label)) {}

  void set(int64_t done, int64_t total) {
    if (bar_ == nullptr) bar_ = std::make_unique<ProgressBar>(label_, total);
    bar_->advance(done - done_);
    done_ = done;
  }
  // Before other output: the bar is drawn again with what follows.
  void clear() {
    if (stderr_is_terminal()) std::fputs("\r\x1b[K", stderr);
  }

 private:
  std::string label_;
  std::unique_ptr<ProgressBar> bar_;
  int64_t done_ = 0;
};

void say(Progress& progress, const std::string& line) {
  progress.clear();
  fmt::print(stderr, "{}\n", one_line(line));
}

base::Result<Fetched> get_from_hub(const GetFlags& flags, const hub::HubSettings& settings,
                                   const InterruptFlag& interrupt) {
  hub::FileChoice choice = flags.choice;
  Fetched fetched;
  fetched.name = flags.what;
  if (const size_t colon = flags.what.find(':'); colon != std::string::npos) {
    fetched.name = flags.what.substr(0, colon);
    choice.gguf = flags.what.substr(colon + 1);
    if (choice.gguf.empty() || !choice.include.empty()) {
      return base::Error{base::ErrorCode::invalid_argument,
                         "after the ':' stands a part of one GGUF file's name", flags.what,
                         "as in org/name:Q4_K_M, and without --include"};
    }
  }
  fetched.revision = flags.revision;
  hub::Snapshot snapshot;
  std::string gguf;
  if (settings.offline) {
    RAFTER_ASSIGN(snapshot, hub::cached_snapshot(settings, fetched.name, flags.revision));
    hub::RemoteRepository held{fetched.name, snapshot.commit, {}};
    for (const auto& [file, outcome] : snapshot.files) held.files.push_back(file);
    RAFTER_ASSIGN(const hub::ChosenFiles chosen, hub::choose_files(held, choice));
    gguf = chosen.gguf;
  } else {
    hub::HttpClient client(&interrupt.flag());
    RAFTER_ASSIGN(hub::RemoteRepository repository,
                  hub::fetch_repository(client, settings, fetched.name, flags.revision));
    RAFTER_ASSIGN(const hub::ChosenFiles chosen, hub::choose_files(repository, choice));
    gguf = chosen.gguf;
    repository.files = chosen.files;
    RAFTER_TRY(hub::complete_files(client, settings, repository));
    Progress progress(one_line(fetched.name));
    hub::DownloadOptions options;
    options.connections = flags.connections;
    options.stopping = &interrupt.flag();
    options.progress = [&](int64_t done, int64_t total) {
      if (total > 0) progress.set(done, total);
    };
    options.waiting = [&](const hub::RemoteFile& file) {
      say(progress, fmt::format("{}: another process is fetching it; waiting", file.path));
    };
    options.finished = [&](const hub::RemoteFile& file, hub::FileOutcome outcome) {
      if (outcome == hub::FileOutcome::downloaded)
        say(progress, fmt::format("{}  {}", file.path, format_bytes(file.size)));
    };
    RAFTER_ASSIGN(snapshot,
                  hub::download_files(settings, repository, repository.files, flags.revision, options));
  }
  fetched.commit = snapshot.commit;
  fetched.path = snapshot.folder;
  bool weights = false;
  for (const auto& [file, outcome] : snapshot.files) {
    weights = weights || file.path.ends_with(".safetensors") || file.path.ends_with(".gguf");
    fetched.files.push_back({{"path", file.path},
                             {"bytes", file.size},
                             {"status", outcome == hub::FileOutcome::downloaded ? "downloaded" : "present"}});
  }
  if (!gguf.empty()) {
    fetched.path += "/" + gguf;
    const size_t slash = gguf.rfind('/') + 1;
    fetched.name += "/" + gguf.substr(slash, gguf.size() - slash - std::string_view(".gguf").size());
  }
  fetched.bytes = snapshot.bytes_fetched;
  fetched.is_model = weights;
  return fetched;
}

base::Result<Fetched> get_from_url(const GetFlags& flags, const hub::HubSettings& settings,
                                   const InterruptFlag& interrupt) {
  if (settings.offline) {
    return base::Error{base::ErrorCode::invalid_argument, "nothing is fetched while HF_HUB_OFFLINE is set",
                       flags.what, ""};
  }
  RAFTER_ASSIGN(const std::string cache, store::cache_directory());
  RAFTER_ASSIGN(const std::string name, hub::file_name_of(flags.what));
  Progress progress(one_line(name));
  hub::UrlDownloadOptions options;
  options.sha256 = flags.sha256;
  options.stopping = &interrupt.flag();
  options.progress = [&](int64_t done, int64_t total) { progress.set(done, std::max(done, total)); };
  RAFTER_ASSIGN(const hub::UrlFile file, hub::download_url(settings, flags.what, cache + "/models", options));
  Fetched fetched;
  fetched.name =
      name.ends_with(".gguf") ? name.substr(0, name.size() - std::string_view(".gguf").size()) : name;
  fetched.path = file.path;
  fetched.is_model = name.ends_with(".gguf");
  fetched.bytes = file.was_present ? 0 : file.bytes;
  fetched.files.push_back(
      {{"path", name}, {"bytes", file.bytes}, {"status", file.was_present ? "present" : "downloaded"}});
  return fetched;
}

// Records the model; one that this program cannot read is kept, and said.
base::Status record(const GetFlags& flags, const Fetched& fetched) {
  if (!fetched.is_model) return {};
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  RAFTER_ASSIGN(const auto records, register_models(registry, {{fetched.path, fetched.name}}));
  if (!flags.name.empty() && !records.empty())
    RAFTER_TRY(registry.set_alias(flags.name, records.front().path));
  return {};
}

base::Status run(const GetFlags& flags) {
  RAFTER_ASSIGN(const std::string cache, store::hugging_face_hub_directory());
  RAFTER_ASSIGN(const hub::HubSettings settings, hub::settings_from_environment(cache));
  const bool is_url = flags.what.find("://") != std::string::npos;
  if (!is_url && !flags.sha256.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "is for a URL; the hub gives checksums itself",
                       "--sha256", ""};
  }
  const auto fetched = [&]() -> base::Result<Fetched> {
    const InterruptFlag interrupt;  // let go before the registering, which has its own
    return is_url ? get_from_url(flags, settings, interrupt) : get_from_hub(flags, settings, interrupt);
  }();
  if (!fetched.ok()) return fetched.error();
  RAFTER_TRY(record(flags, *fetched));
  if (flags.json) {
    const ordered_json json = {{"name", fetched->name},         {"path", fetched->path},
                               {"revision", fetched->revision}, {"commit", fetched->commit},
                               {"bytes", fetched->bytes},       {"files", fetched->files}};
    std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return {};
  }
  const std::string how = fetched->bytes > 0 ? format_bytes(fetched->bytes) + " fetched" : "already here";
  const std::string name = one_line(flags.name.empty() ? fetched->name : flags.name);
  std::cout << fmt::format("{}: {}\n", name, how);
  std::cout << fmt::format("  {}\n", one_line(fetched->path));
  if (fetched->is_model) std::cout << fmt::format("  rafter chat {}\n", name);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<GetFlags>();
  app.add_option("what", flags->what,
                 "org/name on the hub, org/name:Q4_K_M for one of its GGUF files, or a URL")
      ->required();
  app.add_option("--revision", flags->revision, "branch, tag or commit (default: main)");
  app.add_option("--include", flags->choice.include, "only files that match one of these patterns");
  app.add_option("--exclude", flags->choice.exclude, "no file that matches one of these patterns");
  app.add_option("--name", flags->name, "register the model under this name, too");
  app.add_option("--sha256", flags->sha256, "with a URL: what the file's checksum must be");
  app.add_option("--connections", flags->connections, "transfers at once (default: 8)")
      ->check(CLI::Range(1, 64));
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kGetVerb{"get", "fetch a model from the hub, or a file from a URL, and register it",
                    "  rafter get HuggingFaceTB/SmolLM2-135M-Instruct\n"
                    "  rafter get bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0 --name smol\n"
                    "  rafter get org/name --revision v1.1 --include '*.safetensors' --include '*.json'\n"
                    "  rafter get https://example.org/models/tiny.gguf --sha256 9f86d0…\n"
                    "An interrupted download goes on where it stopped when it is run again.\n",
                    define};

}  // namespace rafter::cli
