// rafter roofline bytes: what a token must read, from headers alone.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/progress_bar.h"
#include "cli/roofline.h"
#include "engine/byte_account.h"
#include "lab/synth_shape.h"
#include "lab/synth_tensors.h"

namespace rafter::cli {
namespace {

constexpr int64_t kUsualContexts[] = {600, 8192};

struct BytesFlags {
  std::string model, shape, format;
  int64_t group = 64;
  int64_t context = 600;
  bool json = false;
  EngineFlags engine;  // --kv-quant
};

void print_json(const std::string& name, const BytesFlags& flags, const engine::ByteAccount& account) {
  nlohmann::ordered_json at = nlohmann::ordered_json::object();
  for (int64_t context : kUsualContexts) at[std::to_string(context)] = account.kv_bytes(context);
  at[std::to_string(flags.context)] = account.kv_bytes(flags.context);
  const nlohmann::ordered_json json = {{"model", name},
                                       {"ctx", flags.context},
                                       {"streamed_bytes", account.streamed_bytes},
                                       {"head_bytes", account.head_bytes},
                                       {"expert_bytes_active", account.expert_bytes_active},
                                       {"expert_bytes", account.expert_bytes},
                                       {"vector_bytes", account.vector_bytes},
                                       {"row_gathered_bytes", account.row_gathered_bytes},
                                       {"row_gathered_row_bytes", account.row_gathered_row_bytes},
                                       {"unused_bytes", account.unused_bytes},
                                       {"total_bytes", account.total_bytes},
                                       {"kv", account.cache_format},
                                       {"kv_bytes", account.kv_bytes(flags.context)},
                                       {"kv_bytes_at", at},
                                       {"per_token_bytes", account.per_token_bytes(flags.context)}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const std::string& name, const BytesFlags& flags, const engine::ByteAccount& account) {
  const auto line = [](const std::string& what, int64_t bytes) {
    std::cout << fmt::format("{:<44} {:>16} {:>12}\n", what, bytes, format_bytes(bytes));
  };
  std::cout << fmt::format("{}: one token of one sequence reads\n", name);
  line("streamed weights", account.streamed_bytes);
  line("  of them the head", account.head_bytes);
  if (account.expert_bytes > 0) {
    line("  of them active experts", account.expert_bytes_active);
    line("all experts", account.expert_bytes);
  }
  line("row-gathered tables", account.row_gathered_bytes);
  line("  of them one row", account.row_gathered_row_bytes);
  line("unused tensors", account.unused_bytes);
  line(fmt::format("{} keys and values at {} positions", account.cache_format, flags.context),
       account.kv_bytes(flags.context));
  line(fmt::format("per token at {} positions", flags.context), account.per_token_bytes(flags.context));
}

base::Status run(const BytesFlags& flags) {
  if (flags.model.empty() == flags.shape.empty()) {
    return base::Error{base::ErrorCode::invalid_argument,
                       "name a model, or a shape with --shape and --format", "roofline bytes", ""};
  }
  NamedModel named{"", flags.shape + " " + flags.format};
  if (flags.shape.empty()) {
    RAFTER_ASSIGN(named, find_model(flags.model));
  }
  auto opened = flags.shape.empty() ? format::Checkpoint::open(named.path)
                                    : lab::shape_without_data(flags.shape, flags.format, flags.group);
  RAFTER_ASSIGN(const format::Checkpoint checkpoint, std::move(opened));
  RAFTER_ASSIGN(const std::shared_ptr<const model::Model> model, model::load_model(checkpoint));
  RAFTER_ASSIGN(const std::vector<kernels::KvCodes> codes,
                engine::kv_codes(checkpoint, *model, flags.engine.kv_quantization(), /*precise=*/false));
  const engine::ByteAccount account = engine::account_bytes(checkpoint, *model, codes);
  flags.json ? print_json(named.name, flags, account) : print_text(named.name, flags, account);
  return {};
}

template <typename Entries>
std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& entry : entries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

}  // namespace

Action define_roofline_bytes(CLI::App& app) {
  auto flags = std::make_shared<BytesFlags>();
  constexpr int64_t kMostPositions = 16 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name");
  auto* format = app.add_option("--format", flags->format,
                                "with --shape: how weights are stored: " + names_of(lab::synth_formats()));
  auto* shape =
      app.add_option("--shape", flags->shape, "a shape instead of a model: " + names_of(lab::synth_shapes()));
  shape->needs(format);
  format->needs(shape);
  app.add_option("--group", flags->group, "with --shape: columns that share a scale in the MLX formats")
      ->check(CLI::IsMember({32, 64, 128}))
      ->needs(shape)
      ->capture_default_str();
  app.add_option("--ctx", flags->context, "positions seen (default 600)")
      ->check(CLI::Range(int64_t{0}, kMostPositions));
  add_kv_quant_flag(app, flags->engine);
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace rafter::cli
