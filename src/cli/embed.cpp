// rafter embed: one vector per line of text.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "lab/embedding.h"

namespace rafter::cli {
namespace {

struct EmbedFlags {
  std::string model, file = "-", instruction;
  int batch = 16;
  bool json = false;
  EngineFlags engine;
};

// Up to `most` more lines; fewer at the end.
std::vector<std::string> read_lines(std::istream& in, int most) {
  std::vector<std::string> lines;
  std::string line;
  while (static_cast<int>(lines.size()) < most && std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

nlohmann::ordered_json json_of(size_t index, size_t tokens, const std::vector<float>& vector) {
  return {{"index", index}, {"tokens", tokens}, {"embedding", vector}};
}

base::Status run(const EmbedFlags& flags) {
  const InterruptFlag interrupt;
  std::ifstream file;
  if (flags.file != "-") {
    file.open(flags.file);
    if (!file) return base::Error{base::ErrorCode::not_found, "cannot read it", flags.file, ""};
  }
  std::istream& in = flags.file == "-" ? std::cin : file;
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  RAFTER_ASSIGN(format::Checkpoint opened, format::Checkpoint::open(named.path));
  const auto checkpoint = std::make_shared<const format::Checkpoint>(std::move(opened));
  RAFTER_ASSIGN(const decode::ModelText text, decode::ModelText::from_checkpoint(*checkpoint));
  engine::EngineOptions options;
  options.threads = flags.engine.threads;
  options.precise = flags.engine.precise;
  options.kv_quantization = flags.engine.kv_quantization();
  options.context_limit = flags.engine.context;
  options.max_sequences = flags.batch;
  lab::set_embedding_options(options);
  RAFTER_ASSIGN(const auto engine, engine::Engine::open(checkpoint, options));

  size_t index = 0;
  for (;;) {
    const std::vector<std::string> lines = read_lines(in, flags.batch);
    if (lines.empty()) break;
    std::vector<std::vector<int32_t>> sequences;
    for (const std::string& line : lines) {
      const std::string input =
          flags.instruction.empty() ? line : fmt::format("Instruct: {}\nQuery:{}", flags.instruction, line);
      RAFTER_ASSIGN(std::vector<int32_t> tokens, lab::embedding_tokens(text, input));
      RAFTER_TRY(engine->check_fits(static_cast<int64_t>(tokens.size())));
      sequences.push_back(std::move(tokens));
    }
    RAFTER_ASSIGN(const auto vectors, lab::embed_blocking(*engine, sequences));
    for (size_t i = 0; i < vectors.size(); ++i, ++index) {
      const nlohmann::ordered_json json =
          flags.json ? json_of(index, sequences[i].size(), vectors[i]) : nlohmann::ordered_json(vectors[i]);
      std::fputs((json.dump() + "\n").c_str(), stdout);
    }
    RAFTER_TRY(check_stdout());
    RAFTER_TRY(interrupt.check());
  }
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<EmbedFlags>();
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("file", flags->file, "lines of text; - or nothing: standard input");
  app.add_option("--instruction", flags->instruction,
                 "what the lines are queries for: each becomes \"Instruct: …\\nQuery:…\"");
  app.add_option("--batch", flags->batch, "lines computed together")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_flag("--json", flags->json, "an object per line: index, tokens, embedding");
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--ctx", flags->engine.context, "most tokens of a line (default: the model's)")
      ->check(CLI::Range(int64_t{1}, int64_t{16} << 20));
  app.add_flag("--precise", flags->engine.precise, "fp32-accurate products and an fp32 cache");
  add_kv_quant_flag(app, flags->engine);
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kEmbedVerb{"embed", "turn lines of text into vectors",
                      "  rafter embed qwen3-embedding notes.txt > vectors.jsonl\n"
                      "  echo \"What is a river?\" | rafter embed qwen3-embedding - \\\n"
                      "      --instruction \"Given a question, retrieve passages that answer it\"\n"
                      "  rafter embed qwen3-embedding notes.txt --json | jq .tokens\n",
                      define};

}  // namespace rafter::cli
