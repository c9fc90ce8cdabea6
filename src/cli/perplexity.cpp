// rafter perplexity: how well a model predicts a text, and how far from another model's its predictions are.
#include "lab/perplexity.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/mapped_file.h"
#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

struct PerplexityFlags {
  std::string model, data, against, against_kv_quant = "off";
  bool against_precise = false, json = false;
  lab::WindowOptions windows;
  EngineFlags engine;
};

base::Error data_error(const std::string& path, size_t line, const char* what) {
  return {base::ErrorCode::invalid_data, what, fmt::format("{}, line {}", path, line),
          R"(a .jsonl file has one object with a "text" per line)"};
}

// A .jsonl file's documents; any other file is one.
base::Result<std::vector<std::string>> read_documents(const std::string& path) {
  RAFTER_ASSIGN(std::string content, base::read_text_file(path));
  if (!path.ends_with(".jsonl")) return std::vector<std::string>{std::move(content)};
  std::vector<std::string> documents;
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("text") || !object.at("text").is_string())
      return data_error(path, number, "not an object with a text");
    documents.push_back(object.at("text").get<std::string>());
  }
  return documents;
}

// Documents one behind the other, each with the end token that separates it from the next, as mlx-lm does.
base::Result<std::vector<int32_t>> tokens_of(const std::vector<std::string>& documents,
                                             const decode::ModelText& text) {
  std::vector<int32_t> tokens;
  for (const std::string& document : documents) {
    RAFTER_ASSIGN(const std::vector<int32_t> own, text.raw_prompt(document));
    tokens.insert(tokens.end(), own.begin(), own.end());
    const std::vector<int32_t>& ends = text.end_tokens();
    if (documents.size() > 1 && !ends.empty() &&
        (own.empty() || std::find(ends.begin(), ends.end(), own.back()) == ends.end())) {
      tokens.push_back(ends.front());
    }
  }
  return tokens;
}

nlohmann::ordered_json json_of(const lab::PerplexityFigures& figures) {
  return {{"perplexity", figures.perplexity},
          {"error", figures.error},
          {"mean_loss", figures.mean_loss},
          {"tokens", figures.tokens}};
}

void print_json(const PerplexityFlags& flags, const std::string& name, size_t windows,
                const lab::Comparison& comparison) {
  nlohmann::ordered_json json = {{"model", name}};
  json.update(json_of(comparison.model));
  json["windows"] = windows;
  json["sequence_length"] = flags.windows.length;
  if (!flags.against.empty()) {
    const lab::KlFigures& kl = comparison.kl;
    json["reference"] = json_of(comparison.reference);
    json["kl"] = {{"mean", kl.mean}, {"p50", kl.p50},     {"p90", kl.p90},
                  {"p99", kl.p99},   {"max", kl.largest}, {"same_choice", kl.same_choice}};
  }
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const PerplexityFlags& flags, const std::string& name, const lab::Comparison& comparison) {
  const auto line = [](const std::string& who, const lab::PerplexityFigures& figures) {
    std::cout << fmt::format("{}: perplexity {:.4f} ± {:.4f} over {} tokens\n", who, figures.perplexity,
                             figures.error, figures.tokens);
  };
  line(name, comparison.model);
  if (flags.against.empty()) return;
  line("reference", comparison.reference);
  const lab::KlFigures& kl = comparison.kl;
  std::cout << fmt::format(
      "KL(reference || model): mean {:.3g}, half below {:.3g}, 90 % {:.3g}, 99 % {:.3g}, "
      "largest {:.3g}; same choice {:.2f} %\n",
      kl.mean, kl.p50, kl.p90, kl.p99, kl.largest, 100 * kl.same_choice);
}

base::Status run(PerplexityFlags flags) {
  const InterruptFlag interrupt;
  if (flags.against_precise && flags.against.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "there is nothing to compare with",
                       "--against-precise", "name a checkpoint with --kl-against; the same one is allowed"};
  }
  flags.engine.context = flags.windows.length;
  RAFTER_ASSIGN(const std::vector<std::string> documents, read_documents(flags.data));
  RAFTER_ASSIGN(const LoadedModel model, load_model(flags.model, flags.engine));
  RAFTER_ASSIGN(const std::vector<int32_t> tokens, tokens_of(documents, model.text));
  RAFTER_ASSIGN(const auto windows, lab::cut_windows(tokens, flags.windows));
  std::unique_ptr<engine::Engine> reference;
  if (!flags.against.empty()) {
    RAFTER_ASSIGN(const NamedModel other, find_model(flags.against));
    EngineFlags other_flags = flags.engine;
    other_flags.precise = flags.against_precise;
    other_flags.kv_quant = flags.against_kv_quant;
    RAFTER_ASSIGN(reference, open_engine(other.path, other_flags, /*fuse=*/true));
  }
  std::optional<ProgressBar> bar;
  int64_t drawn = 0;
  const auto comparison = lab::measure_perplexity_blocking(*model.engine, reference.get(), windows,
                                                           [&](int64_t done, int64_t total) {
                                                             if (!bar) bar.emplace("measuring", total);
                                                             bar->advance(done - drawn);
                                                             drawn = done;
                                                             return interrupt.check();
                                                           });
  bar.reset();
  if (!comparison.ok()) return comparison.error();
  flags.json ? print_json(flags, model.name, windows.size(), *comparison)
             : print_text(flags, model.name, *comparison);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<PerplexityFlags>();
  constexpr int64_t kLongest = 1 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("--data", flags->data, R"(the text: a file, or a .jsonl one with a "text" per line)")
      ->required();
  app.add_option("--sequence-length", flags->windows.length, "tokens of a window")
      ->check(CLI::Range(int64_t{2}, kLongest))
      ->capture_default_str();
  app.add_option("--num-samples", flags->windows.windows, "most windows; 0: the whole text")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--kl-against", flags->against,
                 "a reference checkpoint: also print KL(reference || model) per token");
  app.add_flag("--against-precise", flags->against_precise, "run the reference with --precise");
  add_kv_quant_option(app, "--against-kv-quant", flags->against_kv_quant,
                      "the reference's --kv-quant (default: off)");
  app.add_flag("--json", flags->json, "print one JSON object");
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--precise", flags->engine.precise, "fp32-accurate products and an fp32 cache");
  add_kv_quant_flag(app, flags->engine);
  add_device_flag(app, flags->engine);
  app.add_option("--executor", flags->engine.executor,
                 "cpu, or reference: scalar code in double precision (default: cpu)")
      ->check(CLI::IsMember({"cpu", "reference"}));
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kPerplexityVerb{
    "perplexity", "how well a model predicts a text, and KL against another",
    "  rafter perplexity smollm2 --data book.txt\n"
    "  rafter perplexity llama-4bit --data book.txt --kl-against llama-bf16\n"
    "  rafter perplexity smollm2 --data book.txt --kl-against smollm2 --against-precise\n"
    "  rafter perplexity smollm2 --data book.txt --kv-quant 8 --kl-against smollm2\n"
    "  rafter perplexity smollm2 --data book.txt --json | jq .perplexity\n",
    define};

}  // namespace rafter::cli
